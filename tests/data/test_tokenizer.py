import json
import socket

import numpy as np
import pytest
import tiktoken
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from tests.data.helpers import run_job
from theseus.data.tokenizer import (
    END,
    BytesTokenizer,
    HuggingFaceTokenizer,
    TiktokenTokenizer,
    TokenizerConfig,
    identity_differences,
    load_tokenizer,
)
from theseus.data.train_tokenizer import TrainTokenizerJob
from theseus.errors import UserError
from theseus.job import StopRequested

GPT2_SPLIT = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
AWKWARD = [
    "",
    " ",
    "plain words",
    f"before{END}after",
    END,
    "naïve ✓ 漢字 🎉",
    "lines\n\n\twith\r\nspace ",
    "a\x00b",
]


def tiny_encoding(name: str = "tiny", special: dict[str, int] | None = None) -> tiktoken.Encoding:
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"th": 256, b"the": 257, b" w": 258}
    return tiktoken.Encoding(
        name,
        pat_str=GPT2_SPLIT,
        mergeable_ranks=ranks,
        special_tokens={END: 300} if special is None else special,
    )


def tiny_json(path, end: str = END, **added):
    pieces = tokenizers.Tokenizer(tokenizers.models.BPE())
    pieces.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=[end, "<pad>", *added.get("more", [])],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pieces.train_from_iterator(["the thing with the words"] * 5, trainer)
    if added.get("truncate"):
        pieces.enable_truncation(4)
        pieces.enable_padding(length=4, pad_token="<pad>", pad_id=1)
    pieces.save(str(path))
    return path


@pytest.fixture(scope="module")
def all_three(tmp_path_factory):
    path = tiny_json(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")
    return [
        BytesTokenizer(),
        TiktokenTokenizer(tiny_encoding()),
        HuggingFaceTokenizer(path, "tiny"),
    ]


def test_text_comes_back_and_never_ends_a_document(all_three):
    for tokenizer in all_three:
        encoded = tokenizer.encode_batch(AWKWARD)
        assert len(encoded) == len(AWKWARD)
        for text, ids in zip(AWKWARD, encoded, strict=True):
            assert tokenizer.decode(ids) == text
            assert tokenizer.eos_id not in ids.tolist()
            assert ids.max(initial=0) < tokenizer.vocab_size


def test_bytes_are_the_bytes():
    (ids,) = BytesTokenizer().encode_batch(["aé"])
    assert ids.tolist() == [97, 0xC3, 0xA9]
    assert (BytesTokenizer().vocab_size, BytesTokenizer().eos_id) == (257, 256)
    assert BytesTokenizer().decode([97, 256, 98, 300]) == f"a{END}b\ufffd"


@given(st.lists(st.text(st.characters(exclude_categories=()))))
def test_lone_surrogates_are_replaced_and_all_else_comes_back(texts):
    for tokenizer in (BytesTokenizer(), TiktokenTokenizer(tiny_encoding())):
        for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
            paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            assert tokenizer.decode(ids) == paired


def test_a_batch_over_many_chunks_keeps_its_order_and_equals_tiktoken():
    encoding = tiny_encoding()
    texts = [f"the {number} " * (number % 700) for number in range(400)]
    ours = TiktokenTokenizer(encoding).encode_batch(texts)
    assert [ids.tolist() for ids in ours] == encoding.encode_ordinary_batch(texts)


def test_the_end_is_shown_and_unknown_ids_do_not_break_decoding(all_three):
    for tokenizer in all_three:
        (ids,) = tokenizer.encode_batch(["ab"])
        shown = tokenizer.decode([*ids, tokenizer.eos_id, 999_999, *ids])
        assert shown == f"ab{END}\ufffdab"


def test_an_identity_knows_the_vocabulary_not_the_name(tmp_path):
    one = TiktokenTokenizer(tiny_encoding("one")).identity()
    other_name = TiktokenTokenizer(tiny_encoding("two")).identity()
    assert one["name"] == "one"
    assert (one["backend"], one["vocab_size"], one["eos"]) == ("tiktoken", 301, 300)
    assert identity_differences(one, other_name) == []
    other_split = tiktoken.Encoding(
        "one",
        pat_str=r"\S+|\s+",
        mergeable_ranks=tiny_encoding()._mergeable_ranks,
        special_tokens={END: 300},
    )
    assert identity_differences(one, TiktokenTokenizer(other_split).identity())
    differing = identity_differences(one, BytesTokenizer().identity())
    assert differing[:2] == ["backend: tiktoken ≠ bytes", "vocab_size: 301 ≠ 257"]


# The end of a document


def test_a_tokenizer_without_an_end_is_refused_with_its_candidates(tmp_path):
    path = tiny_json(tmp_path / "tokenizer.json", end="<stop>")
    with pytest.raises(UserError, match=r"special tokens '<pad>', '<stop>'; set tokenizer\.eos"):
        HuggingFaceTokenizer(path, "x")
    chosen = HuggingFaceTokenizer(path, "x", eos="<stop>")
    assert chosen.eos_id == 0
    assert chosen.decode(chosen.encode_batch(["<stop>"])[0]) == "<stop>"
    with pytest.raises(UserError, match="no token '<stopp>', did you mean '<stop>'"):
        HuggingFaceTokenizer(path, "x", eos="<stopp>")


def test_several_possible_ends_are_not_guessed_between(tmp_path):
    path = tiny_json(tmp_path / "tokenizer.json", more=["</s>"])
    with pytest.raises(UserError, match="several tokens could end a document"):
        HuggingFaceTokenizer(path, "x")
    assert HuggingFaceTokenizer(path, "x", eos="</s>").eos_id == 2
    with pytest.raises(UserError, match="none of the usual tokens ends a document"):
        TiktokenTokenizer(tiny_encoding(special={"<|im_end|>": 301}))


def test_truncation_and_padding_of_a_tokenizer_json_are_switched_off(tmp_path):
    plain = HuggingFaceTokenizer(tiny_json(tmp_path / "a.json"), "a")
    cut = HuggingFaceTokenizer(tiny_json(tmp_path / "b.json", truncate=True), "b")
    texts = ["a", "the thing with the words and many more of them"]
    assert [i.tolist() for i in cut.encode_batch(texts)] == [
        i.tolist() for i in plain.encode_batch(texts)
    ]
    assert identity_differences(plain.identity(), cut.identity()) == []


def test_an_end_that_is_an_ordinary_added_token_is_still_kept_out_of_text(tmp_path):
    path = tiny_json(tmp_path / "tokenizer.json")
    content = json.loads(path.read_text())
    for token in content["added_tokens"]:
        token["special"] = False
    path.write_text(json.dumps(content))
    tokenizer = HuggingFaceTokenizer(path, "x")
    assert tokenizer.eos_id not in tokenizer.encode_batch([f"a{END}b"])[0].tolist()


# Finding it


def test_the_default_needs_no_files(tmp_path):
    assert load_tokenizer(TokenizerConfig(), tmp_path).vocab_size == 257
    with pytest.raises(UserError, match=r"tokenizer\.name is set"):
        load_tokenizer(TokenizerConfig(name="gpt2"), tmp_path)


def test_a_tokenizer_is_found_by_path_folder_or_name(tmp_path):
    folder = tmp_path / "tokenizers" / "mine"
    folder.mkdir(parents=True)
    path = tiny_json(folder / "tokenizer.json")
    for name in (str(path), str(folder), "mine"):
        config = TokenizerConfig(backend="huggingface", name=name)
        assert load_tokenizer(config, tmp_path).eos_id == 0


def test_a_missing_tokenizer_names_the_nearest_and_how_to_train_one(tmp_path):
    folder = tmp_path / "tokenizers" / "stdlib-4096"
    folder.mkdir(parents=True)
    tiny_json(folder / "tokenizer.json")
    with pytest.raises(UserError) as caught:
        load_tokenizer(TokenizerConfig(backend="huggingface", name="stdlib-409"), tmp_path)
    assert "did you mean 'stdlib-4096'?" in str(caught.value)
    assert "q.build('data/tokenizer/train', 'stdlib-409')" in str(caught.value)
    with pytest.raises(UserError, match="is empty"):
        load_tokenizer(TokenizerConfig(backend="huggingface"), tmp_path)
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(UserError, match=r"is no tokenizer\.json"):
        load_tokenizer(
            TokenizerConfig(backend="huggingface", name=str(tmp_path / "broken.json")), tmp_path
        )


def test_an_unknown_encoding_is_refused_with_the_nearest(tmp_path):
    with pytest.raises(UserError, match="no encoding 'cl100k', did you mean 'cl100k_base'"):
        load_tokenizer(TokenizerConfig(backend="tiktoken", name="cl100k"), tmp_path)


def test_an_encoding_that_cannot_be_fetched_says_how_to_get_it(tmp_path, monkeypatch):
    def no_network(*args, **kwargs):
        raise socket.gaierror("Name or service not known")

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    with pytest.raises(UserError) as caught:
        load_tokenizer(TokenizerConfig(backend="tiktoken", name="r50k_base"), tmp_path)
    assert "not on this machine and could not be fetched" in str(caught.value)
    assert "TIKTOKEN_CACHE_DIR" in str(caught.value)
    assert not list(tmp_path.iterdir())


# Training one


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(6):
        words = [f"word{(number * k) % 17} the answer is {k % 7}" for k in range(200)]
        (folder / f"{number}.txt").write_text("\n".join(words))
    return [f"{folder}/*.txt"]


def trained_with(corpus, **more):
    return {
        "data.tokenizer.dataset": "text",
        "data.tokenizer.vocab_size": 280,
        "data.tokenizer.name": "mine",
        "data.text.files": corpus,
        **{f"data.tokenizer.{key}": value for key, value in more.items()},
    }


def test_a_trained_tokenizer_is_found_by_its_name_and_learns_the_text(tmp_path, corpus):
    memory = run_job(TrainTokenizerJob, tmp_path, trained_with(corpus))
    config = TokenizerConfig(backend="huggingface", name="mine")
    tokenizer = load_tokenizer(config, tmp_path)
    assert tokenizer.vocab_size == 280
    text = "the answer is 3"
    (ids,) = tokenizer.encode_batch([text])
    assert len(ids) < 8
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(tokenizer.encode_batch(["✓ é"])[0]) == "✓ é"
    meta = json.loads((tmp_path / "tokenizers" / "mine" / "meta.json").read_text())
    assert meta["tokenizer"] == tokenizer.identity()
    assert meta["documents"] == 6
    assert memory.steps[-1][0] == 6


def test_training_is_deterministic(tmp_path, corpus):
    contents = set()
    for number in range(3):
        root = tmp_path / str(number)
        run_job(TrainTokenizerJob, root, trained_with(corpus))
        contents.add((root / "tokenizers" / "mine" / "tokenizer.json").read_bytes())
    assert len(contents) == 1


def test_the_same_tokenizer_is_not_trained_again_and_another_is_not_overwritten(tmp_path, corpus):
    run_job(TrainTokenizerJob, tmp_path, trained_with(corpus))
    path = tmp_path / "tokenizers" / "mine" / "tokenizer.json"
    before = path.stat().st_mtime_ns
    memory = run_job(TrainTokenizerJob, tmp_path, trained_with(corpus))
    assert memory.kinds() == ["unchanged"]
    with pytest.raises(UserError) as caught:
        run_job(TrainTokenizerJob, tmp_path, trained_with(corpus, vocab_size=300))
    assert "data.tokenizer.vocab_size: 280 there, 300 here" in str(caught.value)
    assert "set data.tokenizer.name" in str(caught.value)
    assert path.stat().st_mtime_ns == before


def test_a_text_too_small_for_the_vocabulary_is_said(tmp_path):
    (tmp_path / "a.txt").write_text("ab ab")
    memory = run_job(TrainTokenizerJob, tmp_path, trained_with([f"{tmp_path}/a.txt"]))
    assert "warning" in memory.kinds()
    assert "data.tokenizer.vocab_size=280" in memory.events[-1][1]["message"]


def test_training_stops_when_asked_and_keeps_nothing(tmp_path, corpus):
    with pytest.raises(StopRequested, match="run it again"):
        run_job(TrainTokenizerJob, tmp_path, trained_with(corpus), stop_after=0)
    assert not [path for path in (tmp_path / "tokenizers").iterdir() if "lock" not in path.name]


def test_training_on_an_unknown_dataset_is_refused_with_the_nearest(tmp_path, corpus):
    with pytest.raises(UserError, match="did you mean 'stdlib'"):
        run_job(TrainTokenizerJob, tmp_path, trained_with(corpus, dataset="stdlb"))


def test_ids_are_arrays(all_three):
    assert all(isinstance(t.encode_batch(["a"])[0], np.ndarray) for t in all_three)
