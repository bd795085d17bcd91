import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.helpers import run_job
from theseus.config import build, configuration, configure, field
from theseus.data._files import write_json
from theseus.data._mixing import shares
from theseus.data.datasets import (
    FineWeb,
    PretrainingDataset,
    Sampling,
    StreamingPretrainingDataset,
)
from theseus.data.mixture import Mixture
from theseus.data.tokenize import TokenizeFineWeb, TokenizeText, TokenizeVariableDatasetJob
from theseus.data.tokenizer import BytesTokenizer
from theseus.errors import UserError
from theseus.job import StopRequested
from theseus.registry import dataset, job

EOS = 256


class Letters(PretrainingDataset):
    """Documents of 1 to 9 letters."""

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> str:
        return chr(97 + index % 26) * (1 + index * 7 % 9)


@job("test/mixture/tokenize-letters")
class TokenizeLetters(TokenizeVariableDatasetJob):
    DATASET = Letters


class Digits(PretrainingDataset):
    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> str:
        return str(index % 10) * 20


class TokenizeDigits(TokenizeVariableDatasetJob):
    DATASET = Digits


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    run_job(TokenizeLetters, root, {"data.val_pct": 0.2})
    run_job(TokenizeDigits, root, {"data.val_pct": 0.2})
    return root


def mixture(root, *samplings, **more):
    options = {"block_size": 16, "batch_size": 8, "seed": 3, **more}
    return Mixture(list(samplings) or [Sampling(Letters)], root=root, **options)


def written(root, name="Letters", split="train"):
    return np.fromfile(root / "data" / name / f"{split}.bin", dtype=np.uint16).astype(int)


def pairs_of(batch) -> list[tuple[int, int]]:
    """The (input, target) pairs that count."""
    chosen = batch.weights > 0
    return list(zip(batch.tokens[chosen].tolist(), batch.targets[chosen].tolist(), strict=True))


def stacked(batches):
    return [
        None if part[0] is None else np.concatenate(part) for part in zip(*batches, strict=True)
    ]


# What is in a batch


def test_an_epoch_asks_for_every_token_but_the_first_exactly_once(data):
    ids = written(data)
    found = mixture(data, batch_size=1)
    assert found.rows_per_epoch == -(-(len(ids) - 1) // 16)
    read = []
    for step in range(found.rows_per_epoch):
        read += pairs_of(found.batch(step))
    assert sorted(read) == sorted(zip(ids[:-1].tolist(), ids[1:].tolist(), strict=True))


def test_the_shapes_and_types_are_those_a_model_reads(data):
    batch = mixture(data).batch(0)
    assert batch.tokens.shape == batch.targets.shape == batch.weights.shape == (8, 16)
    assert (batch.tokens.dtype, batch.targets.dtype) == (np.int32, np.int32)
    assert batch.weights.dtype == np.float32
    assert batch.segments is None
    assert batch.positions is None
    np.testing.assert_array_equal(batch.tokens[:, 1:], batch.targets[:, :-1])


def test_the_last_row_is_filled_up_with_padding_that_does_not_count(data):
    ids = written(data)
    found = mixture(data, batch_size=1, separate_documents=True)
    short = (len(ids) - 1) % 16
    assert short, "the data of this test must not divide"
    rows = [found.batch(step) for step in range(found.rows_per_epoch)]
    (last,) = [row for row in rows if (row.segments == 0).any()]
    assert last.weights[0, short:].sum() == 0
    assert last.tokens[0, : short + 1].tolist() == ids[-short - 1 :].tolist()
    assert (last.segments[0] == 0).tolist() == [False] * (short + 1) + [True] * (15 - short)


def test_another_epoch_has_another_order_of_the_same_rows(data):
    found = mixture(data, batch_size=1)
    count = found.rows_per_epoch
    first, second = (
        [found.batch(epoch * count + step).tokens.tobytes() for step in range(count)]
        for epoch in (0, 1)
    )
    assert first != second
    assert sorted(first) == sorted(second)


def test_the_seed_decides_the_order(data):
    one, same, other = (mixture(data, seed=seed).batch(5).tokens for seed in (1, 1, 2))
    assert (one == same).all()
    assert not (one == other).all()


# Hosts and micro-batches


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 4, 8]), st.booleans())
@settings(max_examples=40)
def test_the_parts_of_all_hosts_are_the_global_batch(data, step, hosts, separate):
    found = mixture(
        data, Sampling(Letters, 0.7), Sampling(Digits, 0.3), separate_documents=separate
    )
    whole, share = found.batch(step), 8 // hosts
    parts = [found.batch(step, slice(host * share, (host + 1) * share)) for host in range(hosts)]
    for part, expected in zip(stacked(parts), whole, strict=True):
        np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize("accumulation", [1, 2, 4, 8])
def test_the_rows_of_a_step_do_not_depend_on_the_accumulation(data, accumulation):
    found = mixture(data)
    rows = 8 // accumulation
    parts = [found.batch(4, slice(micro * rows, micro * rows + rows)) for micro in
             range(accumulation)]  # fmt: skip
    np.testing.assert_array_equal(stacked(parts)[0], found.batch(4).tokens)


def test_the_rows_do_not_depend_on_how_they_are_grouped_into_steps(data):
    small, large = mixture(data, batch_size=4), mixture(data, batch_size=12)
    read = np.concatenate([small.batch(step).tokens for step in range(9)])
    np.testing.assert_array_equal(
        read, np.concatenate([large.batch(step).tokens for step in range(3)])
    )


# Mixtures


def test_a_mixture_reads_each_dataset_at_its_rate_in_every_batch(data):
    found = mixture(data, Sampling(Letters, 0.75), Sampling(Digits, 0.25))
    for step in (0, 1, 1000):
        tokens = found.batch(step).tokens
        digits = [bool(((row >= 48) & (row < 58)).any()) for row in tokens]
        assert sum(digits) == 2
    assert found.tokens == len(written(data)) + len(written(data, "Digits"))
    epochs = found.epochs_by_dataset(100)
    rows = -(-(len(written(data, "Digits")) - 1) // 16)
    assert epochs["Digits"] == pytest.approx(100 * 8 * 0.25 / rows)
    assert found.epochs(100) == max(epochs.values())


def test_rates_that_would_never_be_read_are_refused(data):
    with pytest.raises(UserError, match="'Digits' is less than one row in 65536"):
        mixture(data, Sampling(Letters, 1.0), Sampling(Digits, 1e-7))
    assert shares(["a", "b"], [1.0, 1e-4])[1] > 0


def test_an_empty_mixture_is_refused(data):
    with pytest.raises(UserError, match="DATASET is empty"):
        Mixture([], root=data, block_size=16, batch_size=8, seed=0)


# Documents kept apart


def test_documents_are_told_apart_and_none_predicts_another(data):
    found = mixture(data, separate_documents=True)
    for step in range(5):
        batch = found.batch(step)
        for row in range(8):
            segment, position, start = 1, 0, True
            for column in range(16):
                if batch.segments[row, column] == 0:
                    break
                if column and batch.tokens[row, column - 1] == EOS:
                    segment, position = segment + 1, 0
                elif not start:
                    position += 1
                start = False
                assert batch.segments[row, column] == segment
                assert batch.positions[row, column] == position
                if batch.tokens[row, column] == EOS:
                    assert batch.weights[row, column] == 0


def test_kept_apart_all_but_the_first_tokens_of_documents_are_asked_for(data):
    ids = written(data)
    found = mixture(data, batch_size=1, separate_documents=True)
    read = []
    for step in range(found.rows_per_epoch):
        read += pairs_of(found.batch(step))
    expected = [pair for pair in zip(ids[:-1].tolist(), ids[1:].tolist(), strict=True)
                if pair[0] != EOS]  # fmt: skip
    assert sorted(read) == sorted(expected)


# Validation


def test_validation_reads_every_held_out_row_once_and_fills_the_last_batch(data):
    found = mixture(data, Sampling(Letters), Sampling(Digits))
    batches = list(found.validation(5))
    assert {batch.tokens.shape for batch in batches} == {(5, 16)}
    assert len(batches) == -(-found.validation_rows // 5)
    read = [pair for batch in batches for pair in pairs_of(batch)]
    expected = []
    for name in ("Letters", "Digits"):
        ids = written(data, name, "val")
        expected += zip(ids[:-1].tolist(), ids[1:].tolist(), strict=True)
    assert sorted(read) == sorted(expected)
    extra = len(batches) * 5 - found.validation_rows
    assert extra
    assert batches[-1].weights[-extra:].sum() == 0


def test_a_limit_takes_the_same_rows_every_time_spread_over_all(data):
    found = mixture(data, Sampling(Letters), Sampling(Digits))
    assert found.validation_rows > 6
    all_rows = stacked(found.validation(1))[0]
    some = stacked(found.validation(3, limit=6))[0]
    assert some.shape[0] == 6
    places = [int(np.flatnonzero((all_rows == row).all(axis=1))[0]) for row in some]
    assert places == [number * found.validation_rows // 6 for number in range(6)]


@pytest.mark.parametrize("hosts", [1, 2, 4])
def test_all_hosts_have_as_many_validation_batches_even_when_rows_are_few(data, hosts):
    found = mixture(data, block_size=400)
    assert found.validation_rows == 1
    share = 4 // hosts
    for host in range(hosts):
        (batch,) = found.validation(4, rows=slice(host * share, (host + 1) * share))
        assert batch.tokens.shape == (share, 400)
        assert (batch.weights.sum() > 0) == (host == 0)


def test_without_held_out_tokens_there_is_no_validation(tmp_path):
    run_job(TokenizeLetters, tmp_path, {"data.val_pct": 0.0})
    found = mixture(tmp_path)
    assert not found.has_validation
    assert list(found.validation(4)) == []


# What does not fit


def test_missing_tokens_of_a_registered_dataset_name_the_job_and_the_call(tmp_path):
    with pytest.raises(UserError) as caught:
        mixture(tmp_path, Sampling("stdlib"))
    text = str(caught.value)
    assert "there are no tokens of 'stdlib' yet" in text
    assert "q.build('data/tokenize/stdlib', 'tokenize-stdlib')" in text
    assert f"with quick('{tmp_path}') as q:" in text
    with pytest.raises(UserError, match="'test/mixture/tokenize-letters'"):
        mixture(tmp_path)


def test_missing_tokens_of_another_dataset_show_the_job_to_write(tmp_path):
    with pytest.raises(UserError) as caught:
        mixture(tmp_path, Sampling(Digits), suffix="-b", tokenizer={"backend": "tiktoken",
                "name": "gpt2", "vocab_size": 50257, "eos": 50256, "sha256": ""})  # fmt: skip
    text = str(caught.value)
    assert re.search(
        r"class TokenizeDigits\(TokenizeVariableDatasetJob\):\n +DATASET = Digits", text
    )
    assert "q.build(TokenizeDigits, 'tokenize-Digits')" in text
    assert "q.config.data.suffix = '-b'" in text
    assert "q.config.tokenizer.name = 'gpt2'" in text


def test_the_call_in_the_message_works(tmp_path):
    with pytest.raises(UserError) as caught:
        mixture(tmp_path, Sampling(Digits))
    lines = [line[4:] for line in str(caught.value).split("\n") if line.startswith("    ")]
    scope = {"Digits": Digits}
    exec("from theseus.quick import quick\n" + "\n".join(lines), scope)
    assert mixture(tmp_path, Sampling(Digits)).tokens > 0


def test_an_unknown_key_is_refused_with_the_nearest(tmp_path):
    with pytest.raises(UserError, match="did you mean 'stdlib'"):
        mixture(tmp_path, Sampling("stdlb"))


def test_tokens_that_are_not_complete_say_so(tmp_path):
    with pytest.raises(StopRequested):
        run_job(TokenizeLetters, tmp_path, stop_after=0)
    with pytest.raises(UserError, match="are not complete; go on"):
        mixture(tmp_path)


def test_tokens_with_another_suffix_are_mentioned(tmp_path):
    run_job(TokenizeLetters, tmp_path, {"data.suffix": "-small"})
    with pytest.raises(UserError, match=r"with another data\.suffix or style: Letters-small"):
        mixture(tmp_path)
    assert mixture(tmp_path, suffix="-small").tokens > 0


def test_another_tokenizer_is_refused_and_the_name_alone_is_no_difference(data):
    wanted = BytesTokenizer().identity()
    assert mixture(data, tokenizer=BytesTokenizer()).max_token_id == EOS
    assert mixture(data, tokenizer={**wanted, "name": "elsewhere"})
    with pytest.raises(UserError) as caught:
        mixture(data, tokenizer={**wanted, "backend": "tiktoken", "vocab_size": 50257})
    assert "vocab_size: 257 ≠ 50257" in str(caught.value)
    assert "set tokenizer.backend='bytes'" in str(caught.value)


def test_datasets_of_different_tokenizers_are_not_mixed(data, tmp_path):
    for name in ("Letters", "Digits"):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        for path in (data / "data" / name).iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
    import json

    meta = json.loads((tmp_path / "data/Digits/meta.json").read_text())
    meta["tokenizer"]["sha256"] = "other"
    write_json(tmp_path / "data/Digits/meta.json", meta)
    with pytest.raises(UserError, match="of the same size but differ"):
        mixture(tmp_path, Sampling(Letters), Sampling(Digits))


def test_a_block_longer_than_the_data_is_refused_with_one_that_works(data):
    most = len(written(data, "Digits")) - 1
    with pytest.raises(UserError, match=f"at most {most}"):
        mixture(data, Sampling(Letters), Sampling(Digits), block_size=most + 1)
    assert mixture(data, Sampling(Digits), block_size=most).rows_per_epoch == 1


def test_a_damaged_file_is_refused(tmp_path):
    run_job(TokenizeLetters, tmp_path)
    path = tmp_path / "data" / "Letters" / "train.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match="was damaged"):
        mixture(tmp_path)


def test_tokens_of_a_future_format_are_refused(tmp_path):
    run_job(TokenizeLetters, tmp_path)
    meta = tmp_path / "data" / "Letters" / "meta.json"
    meta.write_text(meta.read_text().replace('"v": 1', '"v": 2'))
    with pytest.raises(UserError, match="format version 2, this theseus reads 1"):
        mixture(tmp_path)


@dataclass
class ShoutConfig:
    word: str = field("data/shout/word", default="hey")


@dataset("test-mixture-shout")
class Shout(StreamingPretrainingDataset):
    CONFIG = ShoutConfig

    def __init__(self) -> None:
        self.word = configure(self.CONFIG).word

    def __iter__(self) -> Iterator[str]:
        yield from (f"{self.word} {number}" for number in range(100))


class TokenizeShout(TokenizeVariableDatasetJob):
    DATASET = Shout


def test_tokens_of_other_text_than_is_configured_are_refused(tmp_path):
    run_job(TokenizeShout, tmp_path, {"data.shout.word": "ho"})
    assert mixture(tmp_path, Sampling(Shout)).tokens  # nothing is configured here
    with configuration(build(ShoutConfig)), pytest.raises(UserError) as caught:
        mixture(tmp_path, Sampling("test-mixture-shout"))
    assert "data.shout.word: 'ho' then, 'hey' now" in str(caught.value)
    with configuration(build(ShoutConfig, values={"data.shout.word": "ho"})):
        assert mixture(tmp_path, Sampling(Shout)).tokens


def test_a_dataset_that_was_defined_again_in_a_cell_is_still_the_same(tmp_path):
    run_job(TokenizeShout, tmp_path)

    class Again(StreamingPretrainingDataset):
        CONFIG = ShoutConfig

        def __iter__(self) -> Iterator[str]:
            yield ""

    Again.__qualname__ = "Shout"
    with pytest.warns(UserWarning, match="test-mixture-shout"):
        dataset("test-mixture-shout")(Again)
    try:
        assert mixture(tmp_path, Sampling(Shout)).sources[0].name == "test-mixture-shout"
        assert mixture(tmp_path, Sampling(Again)).sources[0].name == "test-mixture-shout"
    finally:
        dataset("test-mixture-shout")(Shout)


def test_where_the_text_was_found_is_no_difference_but_which_text_is(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "pages").mkdir()
    texts = [f"a page about {number}" for number in range(50)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "pages" / "0.parquet")
    run_job(TokenizeFineWeb, tmp_path, {"data.fineweb.path": str(tmp_path / "pages")})
    with configuration(build(FineWeb.CONFIG)):
        assert mixture(tmp_path, Sampling(FineWeb)).tokens
    other = build(FineWeb.CONFIG, values={"data.fineweb.snapshot": "CC-MAIN-2013-20"})
    with configuration(other), pytest.raises(UserError, match=r"data\.fineweb\.snapshot"):
        mixture(tmp_path, Sampling(FineWeb))


def test_a_key_that_is_left_empty_asks_for_nothing(tmp_path):
    from theseus.data.datasets import Text

    (tmp_path / "a.txt").write_text("some text " * 20)
    files = {"data.text.files": [f"{tmp_path}/a.txt"], "data.val_pct": 0.0}
    run_job(TokenizeText, tmp_path, files)
    with configuration(build(Text.CONFIG)):
        assert mixture(tmp_path, Sampling(Text)).tokens
