import json
from collections.abc import Iterator

import numpy as np
import pytest

from tests.data.helpers import run_job
from tests.data.test_tokenize import files_of
from theseus.data._rows import pieces_of_conversation
from theseus.data._tokenizing import Pace
from theseus.data.datasets import (
    ChatTemplateDataset,
    ContrastiveDataset,
    PretrainingDataset,
    Sampling,
    StreamingChatTemplateDataset,
)
from theseus.data.mixture import Mixture
from theseus.data.tokenize import TokenizeBlockwiseDatasetJob, TokenizeVariableDatasetJob
from theseus.data.tokenizer import END, BytesTokenizer
from theseus.errors import UserError
from theseus.job import StopRequested


def said(role, content):
    return {"role": role, "content": content}


class Chats(StreamingChatTemplateDataset):
    def __iter__(self) -> Iterator[list]:
        for number in range(60):
            yield [
                said("system", "be brief"),
                said("user", f"what is {number}?"),
                said("assistant", f"it is {number}"),
                said("user", "sure?"),
                said("assistant", "yes"),
            ]


class TokenizeChats(TokenizeBlockwiseDatasetJob):
    DATASET = Chats
    PACE = Pace(save=0.0, batch_characters=300)


class Short(PretrainingDataset):
    def __len__(self) -> int:
        return 30

    def __getitem__(self, index: int) -> str:
        return "x" * (1 + index)


class TokenizeShort(TokenizeBlockwiseDatasetJob):
    DATASET = Short


class Pairs(ContrastiveDataset):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> dict:
        return {"chosen": f"good {index}", "rejected": f"bad {index}"}


class TokenizePairs(TokenizeBlockwiseDatasetJob):
    DATASET = Pairs


def rows(root, cls, style="padded", **more):
    options = {"block_size": 120, "batch_size": 4, "seed": 0, **more}
    return Mixture([Sampling(cls, 1.0, style)], root=root, **options)


def text(ids) -> str:
    return BytesTokenizer().decode(ids)


GOLDEN = (
    "<|system|>\nbe brief\n<|user|>\nwhat is 7?\n<|assistant|>\nit is 7" + END +
    "<|user|>\nsure?\n<|assistant|>\nyes" + END
)  # fmt: skip


def row_with(batch, words):
    for row in range(len(batch.tokens)):
        whole = [batch.tokens[row, 0], *batch.targets[row]]
        if words in text(whole):
            return row
    return None


def find_row(mixture, words):
    for step in range(mixture.rows_per_epoch):
        batch = mixture.batch(step)
        row = row_with(batch, words)
        if row is not None:
            return batch, row
    raise AssertionError(words)


def test_of_a_conversation_only_the_assistant_is_learnt_and_all_of_it_is_read(tmp_path):
    run_job(TokenizeChats, tmp_path, {"data.val_pct": 0.0})
    batch, row = find_row(rows(tmp_path, Chats), "what is 7?")
    tokens, targets, weights = batch.tokens[row], batch.targets[row], batch.weights[row]
    length = len(GOLDEN) - 2 * len(END) + 2  # each end is one token
    assert text([tokens[0], *targets[: length - 1]]) == GOLDEN
    assert text(tokens[: length - 1]) == GOLDEN.removesuffix(END)
    # Golden: the assistant's words with their first token, each with its end; no role, no question.
    assert text(targets[weights > 0]) == f"it is 7{END}yes{END}"
    assert weights[length - 1 :].sum() == 0
    assert tokens[length:].sum() == 0


def test_all_of_a_conversation_is_learnt_when_that_is_asked_for(tmp_path):
    values = {"data.val_pct": 0.0, "data.assistant_only": False}
    run_job(TokenizeChats, tmp_path, values)
    batch, row = find_row(rows(tmp_path, Chats), "what is 7?")
    assert text(batch.targets[row][batch.weights[row] > 0]) == GOLDEN[1:]


def test_padding_is_no_segment_and_an_end_inside_a_conversation_does_not_cut_it(tmp_path):
    run_job(TokenizeChats, tmp_path, {"data.val_pct": 0.0})
    batch, row = find_row(rows(tmp_path, Chats, separate_documents=True), "what is 7?")
    length = len(GOLDEN) - 2 * len(END) + 2
    assert batch.segments[row].tolist() == [1] * length + [0] * (120 - length)
    assert batch.positions[row, :length].tolist() == list(range(length))
    assert text(batch.targets[row][batch.weights[row] > 0]) == f"it is 7{END}yes{END}"


def test_every_row_comes_once_per_epoch_and_none_is_lost(tmp_path):
    run_job(TokenizeShort, tmp_path, {"data.val_pct": 0.2})
    found = rows(tmp_path, Short, batch_size=1, block_size=40)
    meta = json.loads((tmp_path / "data" / "Short.rows" / "meta.json").read_text())
    assert found.rows_per_epoch == meta["documents"]["train"]
    trained = [int(found.batch(step).weights.sum()) for step in range(found.rows_per_epoch)]
    held_out = [int(batch.weights.sum()) for batch in found.validation(1)]
    assert sorted(trained + held_out) == list(range(1, 31))  # n letters and their end: n targets


def test_rows_that_are_too_long_are_cut_and_it_is_said(tmp_path):
    run_job(TokenizeChats, tmp_path, {"data.val_pct": 0.0})
    assert rows(tmp_path, Chats).notes() == []
    found = rows(tmp_path, Chats, block_size=30)
    assert found.batch(0).tokens.shape == (4, 30)
    assert found.notes() == [
        "Chats: 60 of 60 rows are cut to 30 tokens",
        "Chats: 60 of 60 rows have nothing to learn in them",
    ]
    assert found.batch(0).weights.sum() == 0


def test_packed_and_padded_tokens_of_one_dataset_lie_side_by_side(tmp_path):
    class TokenizePacked(TokenizeVariableDatasetJob):
        DATASET = Short

    run_job(TokenizeShort, tmp_path)
    run_job(TokenizePacked, tmp_path)
    mixed = Mixture(
        [Sampling(Short, 0.5, "pmd"), Sampling(Short, 0.5, "padded")],
        root=tmp_path,
        block_size=40,
        batch_size=4,
        seed=0,
        separate_documents=True,
    )
    segments = mixed.batch(0).segments
    assert sorted(row.max() > 1 for row in segments) == [False, False, True, True]


def test_missing_rows_name_the_blockwise_job(tmp_path):
    with pytest.raises(UserError, match=r"class TokenizeShort\(TokenizeBlockwiseDatasetJob\)"):
        rows(tmp_path, Short)
    run_job(TokenizeShort, tmp_path)
    with pytest.raises(UserError, match=r"another data.suffix or style: Short\.rows"):
        rows(tmp_path, Short, "pmd")


@pytest.mark.parametrize("cls", [TokenizeChats, TokenizePairs])
def test_an_interrupted_job_goes_on_to_the_same_files(tmp_path, cls):
    run_job(cls, tmp_path / "whole", {"data.val_pct": 0.3})
    with pytest.raises(StopRequested):
        run_job(cls, tmp_path / "parts", {"data.val_pct": 0.3}, stop_after=200)
    run_job(cls, tmp_path / "parts", {"data.val_pct": 0.3})
    (whole,), (parts,) = (
        list((tmp_path / part / "data").glob("[!.]*")) for part in ("whole", "parts")
    )
    assert files_of(whole) == files_of(parts)
    assert len(files_of(whole)) == 7


def test_max_tokens_takes_whole_rows_and_does_not_overshoot(tmp_path):
    run_job(TokenizeShort, tmp_path / "a", {"data.max_tokens": 14, "data.val_pct": 0.0})
    meta = json.loads((tmp_path / "a" / "data" / "Short.rows" / "meta.json").read_text())
    assert meta["tokens"]["train"] == 2 + 3 + 4 + 5
    with pytest.raises(UserError, match=r"longer than data\.max_tokens=1"):
        run_job(TokenizeShort, tmp_path / "b", {"data.max_tokens": 1})


# Pairs


def test_a_pair_stands_in_two_neighbouring_rows(tmp_path):
    run_job(TokenizePairs, tmp_path, {"data.val_pct": 0.2})
    found = rows(tmp_path, Pairs, "contrastive", block_size=16)
    seen = []
    for step in range(found.rows_per_epoch // 4):
        batch = found.batch(step)
        texts = [
            text(row[mask > 0]) for row, mask in zip(batch.targets, batch.weights, strict=True)
        ]
        for chosen, rejected in zip(texts[::2], texts[1::2], strict=True):
            assert chosen.startswith("ood ")
            assert rejected == "ad " + chosen.removeprefix("ood ")
            seen.append(chosen)
    assert len(seen) == len(set(seen)) == found.rows_per_epoch // 4 * 2
    halves = [found.batch(0, rows=slice(start, start + 2)).tokens for start in (0, 2)]
    np.testing.assert_array_equal(np.concatenate(halves), found.batch(0).tokens)
    (val,) = found.validation(found.validation_rows)
    assert text(val.targets[0]).startswith("ood ")
    assert text(val.targets[1]).startswith("ad ")


def test_a_limited_validation_keeps_pairs_together(tmp_path):
    run_job(TokenizePairs, tmp_path, {"data.val_pct": 0.5})
    found = rows(tmp_path, Pairs, "contrastive", block_size=16)
    batches = list(found.validation(4, limit=6))
    assert len(batches) == 2
    texts = [text(row[mask > 0]) for batch in batches
             for row, mask in zip(batch.targets, batch.weights, strict=True)]  # fmt: skip
    assert [words[:2] for words in texts] == ["oo", "ad"] * 3 + ["", ""]
    assert texts[1] == "ad " + texts[0].removeprefix("ood ")
    with pytest.raises(UserError, match="even number of rows, not 3"):
        next(found.validation(3))


def test_pairs_need_an_even_batch_and_a_mixture_of_their_own(tmp_path):
    run_job(TokenizePairs, tmp_path)
    run_job(TokenizeShort, tmp_path)
    with pytest.raises(UserError, match="needs an even one: a pair is two rows; 2 or 4"):
        rows(tmp_path, Pairs, "contrastive", batch_size=3)
    with pytest.raises(UserError, match="either all 'contrastive' or not at all"):
        Mixture(
            [Sampling(Pairs, 1, "contrastive"), Sampling(Short, 1, "padded")],
            root=tmp_path,
            block_size=16,
            batch_size=4,
            seed=0,
        )


# Conversations that are none


@pytest.mark.parametrize(
    ("conversation", "message"),
    [
        ([], "a conversation is a list of messages"),
        ("hello", "a conversation is a list of messages"),
        ([{"role": "user"}], "both text; got {'role': 'user'}"),
        ([said("user", None)], "both text"),
        ([said("assistent", "x")], "got 'assistent', did you mean 'assistant'"),
    ],
)
def test_a_wrong_conversation_is_refused(conversation, message):
    with pytest.raises(UserError, match=message):
        pieces_of_conversation(conversation, assistant_only=True)


def test_a_conversation_without_an_answer_has_nothing_to_learn():
    pieces = pieces_of_conversation([said("user", "hello?")], assistant_only=True)
    assert not any(piece.learnt for piece in pieces)
    assert pieces[-1].text is None


class Broken(ChatTemplateDataset):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> list:
        return [said("user", "x"), said("bot", "y")]


class TokenizeBroken(TokenizeBlockwiseDatasetJob):
    DATASET = Broken


def test_a_wrong_role_stops_the_job_with_the_roles(tmp_path):
    with pytest.raises(UserError, match="is one of system, user, assistant, tool; got 'bot'"):
        run_job(TokenizeBroken, tmp_path)
