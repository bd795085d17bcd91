import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from tests.data.helpers import run_job
from tests.data.killed import VALUES, TokenizeNumbers, TokenizeSome, attempt
from tests.data.test_tokenizer import tiny_encoding
from theseus.config import build, field
from theseus.data import tokenizer as tokenizers
from theseus.data._packing import Packer, joined
from theseus.data._tokenizing import Pace
from theseus.data.datasets import PretrainingDataset, StreamingPretrainingDataset
from theseus.data.token_file import Sidecar, TokenFile, dtype_for, token_folder
from theseus.data.tokenize import TokenizeStdLib, TokenizeText, TokenizeVariableDatasetJob
from theseus.data.tokenizer import END, TiktokenTokenizer
from theseus.errors import UserError
from theseus.job import StopRequested

EOS = 256  # of the tokenizer `bytes`


class Few(PretrainingDataset):
    """Documents of 0, 1, 2, … characters."""

    count = 40

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> str:
        return "abcdefghij"[index % 10] * index


class TokenizeFew(TokenizeVariableDatasetJob):
    DATASET = Few
    PACE = Pace(save=0.0, batch_characters=30)


class Endless(StreamingPretrainingDataset):
    def __iter__(self) -> Iterator[str]:
        number = 0
        while True:
            yield f"document {number}"
            number += 1


class TokenizeEndless(TokenizeVariableDatasetJob):
    DATASET = Endless
    PACE = Pace(batch_characters=500)


class Empty(StreamingPretrainingDataset):
    def __iter__(self) -> Iterator[str]:
        return iter(())


class TokenizeEmpty(TokenizeVariableDatasetJob):
    DATASET = Empty


def files_of(folder) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def documents_of(folder, split) -> list[str]:
    """Read the file as its documentation says, with nothing of ours."""
    meta = json.loads((folder / "meta.json").read_text())
    ids = np.fromfile(folder / f"{split}.bin", dtype=meta["dtype"])
    assert len(ids) == meta["tokens"][split]
    texts, text = [], bytearray()
    for number in ids.tolist():
        if number == EOS:
            texts.append(text.decode())
            text = bytearray()
        else:
            text.append(number)
    assert not text
    assert len(texts) == meta["documents"][split]
    return texts


# What is written


def test_every_document_is_in_exactly_one_split_with_one_end(root):
    run_job(TokenizeFew, root, {"data.val_pct": 0.3})
    folder = root / "data" / "Few"
    train, val = documents_of(folder, "train"), documents_of(folder, "val")
    assert sorted(train + val) == sorted(Few()[index] for index in range(40))
    assert len(val) in range(5, 20)
    order = [Few()[index] for index in range(40)]
    assert train == [text for text in order if text in train]
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["dtype"] == "uint16"
    assert meta["max_token_id"] == EOS
    assert meta["tokens"]["train"] + meta["tokens"]["val"] == sum(range(40)) + 40
    assert meta["settings"]["data.val_pct"] == 0.3
    assert meta["tokenizer"]["backend"] == "bytes"


def test_no_validation_is_possible(root):
    memory = run_job(TokenizeFew, root, {"data.val_pct": 0.0})
    assert len(documents_of(root / "data" / "Few", "train")) == 40
    assert documents_of(root / "data" / "Few", "val") == []
    assert "warning" not in memory.kinds()


def test_the_split_depends_on_the_seed_and_the_index_alone(root):
    splits = []
    for number, (seed, pace) in enumerate([(0, 30), (0, 10_000), (1, 30)]):
        job = type("Job", (TokenizeFew,), {"PACE": Pace(batch_characters=pace)})
        run_job(job, root / str(number), {"data.val_pct": 0.3, "data.seed": seed})
        splits.append(documents_of(root / str(number) / "data" / "Few", "val"))
    assert splits[0] == splits[1] != splits[2]


@pytest.mark.parametrize("most", [1, 2, 3, 50, 51, 52, 399, 820])
def test_max_tokens_is_met_exactly_and_the_last_document_still_ends(root, most):
    run_job(TokenizeFew, root, {"data.max_tokens": most, "data.val_pct": 0.2})
    folder = root / "data" / "Few"
    texts = documents_of(folder, "train") + documents_of(folder, "val")
    assert sum(len(text) + 1 for text in texts) == most


def test_a_dataset_that_ends_before_max_tokens_is_said(root):
    memory = run_job(TokenizeFew, root, {"data.max_tokens": 10_000})
    assert any("ended after 820 tokens" in facts["message"] for _, facts in memory.events)


def test_max_samples_counts_documents_and_an_endless_stream_ends(root):
    run_job(TokenizeEndless, root, {"data.max_samples": 123, "data.val_pct": 0.1})
    folder = root / "data" / "Endless"
    texts = documents_of(folder, "train") + documents_of(folder, "val")
    assert sorted(texts) == sorted(f"document {number}" for number in range(123))


def test_text_that_looks_like_the_end_of_a_document_is_text(root, tmp_path):
    (tmp_path / "a.txt").write_text(f"one{END}two")
    values = {"data.text.files": [f"{tmp_path}/a.txt"], "data.val_pct": 0.0}
    run_job(TokenizeText, root, values)
    assert documents_of(root / "data" / "text", "train") == [f"one{END}two"]


def test_the_type_of_the_ids_follows_the_vocabulary():
    assert dtype_for(65_536) == "uint16"
    assert dtype_for(65_537) == "uint32"


def test_an_id_beyond_the_vocabulary_is_never_written():
    with pytest.raises(OverflowError, match="gave the id 70000"):
        joined([np.array([3, 70_000], dtype=np.uint32)], 60_000)
    ids, greatest = joined([np.array([65_535], dtype=np.uint32)], 65_536)
    assert (ids.tolist(), ids.dtype, greatest) == ([65_535], np.uint16, 65_535)


def test_a_packer_cuts_the_same_wherever_a_batch_ends():
    documents = [np.arange(length, dtype=np.uint32) for length in (3, 0, 5, 1, 9)]
    whole = Packer(300, EOS, 12, 0.0, 0)
    from theseus.data._packing import Counts

    for cut in range(6):
        counts, written = Counts.of({}), []
        for part in (documents[:cut], documents[cut:]):
            if not counts.full:
                content, counts = whole.pack(part, counts)
                written += content["train.bin"].tolist()
        assert written == [0, 1, 2, EOS, EOS, 0, 1, 2, 3, 4, EOS, EOS]
        assert counts.all_tokens == 12
        assert counts.full


def test_tokens_of_a_bpe_are_those_of_the_library(root, monkeypatch):
    encoding = tiny_encoding()
    monkeypatch.setattr(tokenizers, "_tiktoken_encoding", lambda name: encoding)
    values = {"tokenizer.backend": "tiktoken", "tokenizer.name": "tiny", "data.val_pct": 0.0}
    run_job(TokenizeFew, root, values)
    sidecar = Sidecar.read(root / "data" / "Few")
    assert sidecar.tokenizer == TiktokenTokenizer(encoding).identity()
    file = TokenFile(root / "data" / "Few", "train", sidecar)
    expected = [id_ for text in map(Few().__getitem__, range(40))
                for id_ in [*encoding.encode_ordinary(text), 300]]  # fmt: skip
    assert file.tokens.tolist() == expected


def test_progress_tells_tokens_rate_and_remaining_time(root):
    memory = run_job(TokenizeFew, root)
    done, total, facts = memory.steps[-1]
    assert (done, total, facts["unit"]) == (820, 820, "tokens")
    done, total, facts = memory.steps[len(memory.steps) // 2]
    assert 0 < done < total
    assert facts["rate"] > 0
    assert facts["remaining"] > 0
    assert memory.reports[-1] == (40, memory.reports[-1][1])
    assert memory.reports[-1][1]["data/tokens"] == 820


# Again, and otherwise


def test_finished_tokens_are_not_made_again(root):
    run_job(TokenizeFew, root)
    before = (root / "data" / "Few" / "train.bin").stat().st_mtime_ns
    memory = run_job(TokenizeFew, root)
    assert memory.kinds() == ["unchanged"]
    assert memory.steps == [(820, 820, {"unit": "tokens", "documents": 40})]
    assert (root / "data" / "Few" / "train.bin").stat().st_mtime_ns == before


def test_other_settings_are_refused_and_a_suffix_keeps_both(root):
    run_job(TokenizeFew, root, {"data.seed": 1})
    with pytest.raises(UserError) as caught:
        run_job(TokenizeFew, root, {"data.seed": 2, "data.val_pct": 0.5})
    assert "data.seed: 1 there, 2 here" in str(caught.value)
    assert "data.val_pct: 0.01 there, 0.5 here" in str(caught.value)
    assert "data.suffix" in str(caught.value)
    run_job(TokenizeFew, root, {"data.seed": 2, "data.suffix": "-2"})
    assert sorted(path.name for path in (root / "data").glob("[!.]*")) == ["Few", "Few-2"]


def test_text_that_changed_since_is_refused(root, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    values = {"data.text.files": [str(path)]}
    run_job(TokenizeText, root, values)
    path.write_text("newer")
    with pytest.raises(UserError, match=r"source\.bytes: 3 there, 5 here"):
        run_job(TokenizeText, root, values)


def test_an_interrupted_attempt_with_other_settings_is_refused(root):
    with pytest.raises(StopRequested):
        run_job(TokenizeFew, root, {"data.seed": 1}, stop_after=100)
    with pytest.raises(UserError) as caught:
        run_job(TokenizeFew, root, {"data.seed": 2})
    assert "interrupted attempt" in str(caught.value)
    assert "data.seed: 1 there, 2 here" in str(caught.value)
    run_job(TokenizeFew, root, {"data.seed": 1})


def test_an_empty_dataset_is_refused_and_leaves_nothing(root):
    with pytest.raises(UserError, match="'Empty' gave no document"):
        run_job(TokenizeEmpty, root)
    assert not token_folder(root, "Empty").exists()
    assert not list((root / "data").glob("*.partial"))


def test_keeping_everything_for_validation_is_refused(root):
    with pytest.raises(UserError, match=r"data\.val_pct is 1"):
        run_job(TokenizeFew, root, {"data.val_pct": 1.0})


def test_a_job_without_a_dataset_says_what_to_add():
    class Nothing(TokenizeVariableDatasetJob):
        pass

    class Wrong(TokenizeVariableDatasetJob):
        DATASET = int

    with pytest.raises(UserError, match="give it `DATASET = …`"):
        build(*Nothing.configs())
    with pytest.raises(UserError, match=r"Wrong\.DATASET is int, not a class derived from"):
        build(*Wrong.configs())


def test_a_folder_that_is_not_ours_is_left_alone(root):
    folder = root / "data" / "Few"
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="is in the way"):
        run_job(TokenizeFew, root)
    assert (folder / "thesis.txt").read_text() == "precious"


# Stopping


def test_a_stop_is_heard_at_a_batch_and_the_next_run_goes_on(root):
    run_job(TokenizeNumbers, root / "whole", VALUES)
    with pytest.raises(StopRequested, match="run the same job again"):
        run_job(TokenizeNumbers, root / "parts", VALUES, stop_after=20_000)
    assert not token_folder(root / "parts", "Numbers").exists()
    memory = run_job(TokenizeNumbers, root / "parts", VALUES)
    assert memory.kinds() == ["resumed"]
    assert memory.events[0][1]["tokens"] >= 20_000
    whole, parts = (files_of(root / part / "data" / "Numbers") for part in ("whole", "parts"))
    assert whole == parts
    assert set(whole) == {"train.bin", "val.bin", "meta.json"}


def test_a_stream_that_hangs_can_be_stopped(root):
    import threading

    hang = threading.Event()

    class Hanging(StreamingPretrainingDataset):
        def __iter__(self) -> Iterator[str]:
            yield "x" * 2000
            hang.wait(20)

    class TokenizeHanging(TokenizeVariableDatasetJob):
        DATASET = Hanging
        PACE = Pace(batch_characters=100)

    try:
        with pytest.raises(StopRequested):
            run_job(TokenizeHanging, root, stop_after=0)
    finally:
        hang.set()


def test_an_error_of_the_dataset_comes_out_and_what_was_read_is_kept(root):
    class Breaking(StreamingPretrainingDataset):
        broken = True

        def __iter__(self) -> Iterator[str]:
            for number in range(100):
                if number == 70 and self.broken:
                    raise ZeroDivisionError("number 70")
                yield f"document {number} " * 10

    class TokenizeBreaking(TokenizeVariableDatasetJob):
        DATASET = Breaking
        PACE = Pace(batch_characters=500)

    with pytest.raises(ZeroDivisionError, match="number 70"):
        run_job(TokenizeBreaking, root)
    Breaking.broken = False
    memory = run_job(TokenizeBreaking, root)
    assert memory.events[0][1]["documents"] > 50
    texts = documents_of(root / "data" / "Breaking", "train")
    assert len(texts) + len(documents_of(root / "data" / "Breaking", "val")) == 100


def test_a_full_disk_leaves_a_record_that_can_be_gone_on_from(root, monkeypatch):
    from theseus.data.token_writer import TokenWriter

    real, calls = TokenWriter.append, []

    def failing(self, name, content):
        calls.append(name)
        if len(calls) == 8:
            real(self, name, memoryview(bytes(content)[: len(bytes(content)) // 2]))
            raise OSError(28, "No space left on device")
        real(self, name, content)

    monkeypatch.setattr(TokenWriter, "append", failing)
    with pytest.raises(OSError, match="No space left"):
        run_job(TokenizeNumbers, root / "parts", VALUES)
    monkeypatch.undo()
    attempt(root / "parts")
    attempt(root / "whole")
    assert files_of(root / "parts/data/Numbers") == files_of(root / "whole/data/Numbers")


def test_two_writers_of_one_target_do_not_mix(root):
    class Meddling(Few):
        def __getitem__(self, index: int) -> str:
            if index == 20:
                with pytest.raises(UserError, match="being written by another process"):
                    run_job(TokenizeMeddling, root)
            return super().__getitem__(index)

    class TokenizeMeddling(TokenizeVariableDatasetJob):
        DATASET = Meddling
        PACE = Pace(batch_characters=30)

    run_job(TokenizeMeddling, root)
    assert len(documents_of(root / "data" / "Meddling", "train")) > 30


# Killing


def killed(root, repository, *args) -> str:
    command = [sys.executable, "-m", "tests.data.killed", str(root), *map(str, args)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_killed_at_random_moments_the_files_are_those_of_an_uninterrupted_run(root, repository):
    attempt(root / "whole")
    whole = files_of(root / "whole" / "data" / "Numbers")
    kills = int(os.environ.get("THESEUS_TEST_KILLS", "5"))
    total, seed = 0, 0
    while total < kills:
        out = killed(root / str(seed), repository, seed, kills - total)
        total += int(re.search(r"killed (\d+) times", out)[1])
        assert files_of(root / str(seed) / "data" / "Numbers") == whole
        seed += 1


def test_killed_before_any_durable_call_the_files_are_the_same(root, repository):
    attempt(root / "whole", TokenizeSome)
    whole = files_of(root / "whole" / "data" / "Numbers")
    out = killed(root / "calls", repository, "calls")
    calls = int(re.search(r"each of (\d+) calls", out)[1])
    assert calls > 30
    for call in range(calls):
        assert files_of(root / "calls" / str(call) / "data" / "Numbers") == whole


# Settings of a dataset


def test_the_settings_of_the_dataset_are_kept_beside_the_tokens(root):
    from dataclasses import dataclass

    from theseus.config import configure

    @dataclass
    class LetterConfig:
        letter: str = field("data/letters/letter", default="a")

    class Letters(StreamingPretrainingDataset):
        CONFIG = LetterConfig

        def __init__(self) -> None:
            self.letter = configure(self.CONFIG).letter

        def __iter__(self) -> Iterator[str]:
            # Read in another thread, where the configuration must be found too.
            yield from (configure(self.CONFIG).letter * 10 for _ in range(10))

    class TokenizeLetters(TokenizeVariableDatasetJob):
        DATASET = Letters

    run_job(TokenizeLetters, root, {"data.letters.letter": "b"})
    meta = json.loads((root / "data" / "Letters" / "meta.json").read_text())
    assert meta["dataset"] == {"key": "Letters", "settings": {"data.letters.letter": "b"}}
    with pytest.raises(UserError, match=r'data\.letters\.letter: "b" there, "a" here'):
        run_job(TokenizeLetters, root)


def test_the_standard_library_is_tokenized_under_its_key(root):
    run_job(TokenizeStdLib, root, {"data.max_samples": 30})
    assert json.loads((root / "data/stdlib/meta.json").read_text())["documents"]["train"] >= 25
