"""The three kinds of tokenizer behind `theseus.data.tokenizer`."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from theseus.errors import UserError, did_you_mean, not_installed

if TYPE_CHECKING:
    import tiktoken
    import tokenizers

Ids = npt.NDArray[Any]

END = "<|endoftext|>"
# How tokenizers call the token that ends a document. Those that end a turn (<|im_end|>, <|eot_id|>)
# are not among them, and padding never is.
_ENDS = (END, "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "[EOS]", "<｜end▁of▁sentence｜>")
_CHUNK = 1 << 16  # characters that one thread encodes at a time


class BytesTokenizer:
    """The 256 bytes of UTF-8, and an end."""

    vocab_size = 257
    eos_id = 256

    def identity(self) -> dict[str, Any]:
        """Return what token files say of it."""
        sha256 = hashlib.sha256(bytes(range(256))).hexdigest()
        return _identity("bytes", "", self.vocab_size, self.eos_id, sha256)

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Return the bytes of each text."""
        return [np.frombuffer(_readable(text).encode("utf-8"), dtype=np.uint8) for text in texts]

    def decode(self, ids: Sequence[int] | Ids) -> str:
        """Return the text; bytes that are no UTF-8 become `�`."""
        end = END.encode()
        return b"".join(
            bytes([number]) if number < self.eos_id else end if number == self.eos_id else b"\xff"
            for number in np.asarray(ids).tolist()
        ).decode("utf-8", "replace")


class HuggingFaceTokenizer:
    """A `tokenizer.json`, read by the `tokenizers` library."""

    def __init__(self, path: Path, name: str, eos: str = "") -> None:
        try:
            from tokenizers import Tokenizer as Loaded
        except ImportError:
            raise not_installed("this tokenizer", "tokenizers") from None
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            vocabulary = Loaded.from_str(json.dumps(content)).get_vocab(with_added_tokens=True)
        except Exception as error:
            msg = f"{path} is no tokenizer.json: {error}"
            raise UserError(msg) from error
        added = {token["content"]: token for token in content["added_tokens"]}
        self._name = name
        self._eos = _end_token(str(path), set(vocabulary), added, eos)
        if self._eos in added:
            # Only tokens marked so can be kept from being read out of a document's text.
            added[self._eos]["special"] = True
        content["truncation"] = content["padding"] = None
        self._sha256 = hashlib.sha256(_canonical(content)).hexdigest()
        self._tokenizer: tokenizers.Tokenizer = Loaded.from_str(json.dumps(content))
        self._tokenizer.encode_special_tokens = True
        self.vocab_size = max(vocabulary.values()) + 1
        self.eos_id = vocabulary[self._eos]
        if self.eos_id in self.encode_batch([self._eos])[0]:
            msg = (
                f"{path}: text that contains {self._eos!r} would end a document; the token must be "
                "an added token of the tokenizer, or set tokenizer.eos to another one"
            )
            raise UserError(msg)

    def identity(self) -> dict[str, Any]:
        """Return what token files say of it."""
        return _identity("huggingface", self._name, self.vocab_size, self.eos_id, self._sha256)

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text, working on all cores."""
        encoded = self._tokenizer.encode_batch_fast(
            [_readable(text) for text in texts], add_special_tokens=False
        )
        return [np.asarray(one.ids, dtype=np.uint32) for one in encoded]

    def decode(self, ids: Sequence[int] | Ids) -> str:
        """Return the text; ids beyond the vocabulary become `�`."""
        return _decode_known(
            lambda known: self._tokenizer.decode(known, skip_special_tokens=False),
            lambda number: self._tokenizer.id_to_token(number) is not None,
            np.asarray(ids).tolist(),
        )


class TiktokenTokenizer:
    """An encoding of tiktoken, by name or as an object."""

    def __init__(self, encoding: tiktoken.Encoding, eos: str = "") -> None:
        special = encoding.special_tokens_set
        self._encoding = encoding
        self._eos = _end_token(f"the encoding '{encoding.name}'", special, special, eos)
        self.vocab_size = encoding.n_vocab
        self.eos_id = encoding.encode_single_token(self._eos)

    def identity(self) -> dict[str, Any]:
        """Return what token files say of it."""
        return _identity(
            "tiktoken", self._encoding.name, self.vocab_size, self.eos_id, self._sha256
        )

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text, working on all cores."""
        chunks: list[list[str]] = [[]]
        size = 0
        for text in texts:
            if size >= _CHUNK:
                chunks.append([])
                size = 0
            chunks[-1].append(text)
            size += len(text)
        encoded = self._threads.map(self._encode_chunk, chunks)
        return [ids for chunk in encoded for ids in chunk]

    def decode(self, ids: Sequence[int] | Ids) -> str:
        """Return the text; ids beyond the vocabulary become `�`."""
        return _decode_known(self._encoding.decode, self._is_known, np.asarray(ids).tolist())

    def _encode_chunk(self, texts: list[str]) -> list[Ids]:
        # Straight into arrays: Python lists of ids would be built one thread at a time.
        encode = self._encoding.encode_to_numpy
        return [encode(_readable(text), disallowed_special=()) for text in texts]

    def _is_known(self, number: int) -> bool:
        try:
            self._encoding.decode_single_token_bytes(number)
        except (KeyError, OverflowError):
            return False
        return True

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(available_cores(), thread_name_prefix="theseus-encode")

    @cached_property
    def _sha256(self) -> str:
        digest = hashlib.sha256()
        for token in self._encoding.token_byte_values():
            digest.update(self._encoding.encode_single_token(token).to_bytes(4, "little") + token)
        # One vocabulary with two ways to split text makes two tokenizers; tiktoken has no public
        # name for the pattern.
        digest.update(self._encoding._pat_str.encode())
        for name in sorted(self._encoding.special_tokens_set):
            digest.update(f"{name} {self._encoding.encode_single_token(name)}\n".encode())
        return digest.hexdigest()


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _end_token(where: str, known: Collection[str], listed: Collection[str], eos: str) -> str:
    if eos:
        if eos in known:
            return eos
        msg = f"tokenizer.eos: {where} has no token {eos!r}{did_you_mean(eos, listed)}"
        raise UserError(f"{msg}; its special tokens: {_listing(listed)}")
    found = [token for token in _ENDS if token in known]
    if len(found) == 1:
        return found[0]
    problem = (
        f"several tokens could end a document: {_listing(found)}"
        if found
        else f"none of the usual tokens ends a document ({', '.join(_ENDS)}); it has the special "
        f"tokens {_listing(listed)}"
    )
    msg = f"{where}: {problem}; set tokenizer.eos to the right one"
    raise UserError(msg)


def _listing(tokens: Collection[str]) -> str:
    shown = sorted(tokens)[:20]
    more = f", and {len(tokens) - 20} more" if len(tokens) > 20 else ""
    return ", ".join(repr(token) for token in shown) + more if shown else "none"


def _identity(backend: str, name: str, vocab_size: int, eos: int, sha256: str) -> dict[str, Any]:
    return {
        "backend": backend,
        "name": name,
        "vocab_size": vocab_size,
        "eos": eos,
        "sha256": sha256,
    }


def _decode_known(
    decode: Callable[[list[int]], str], known: Callable[[int], bool], ids: list[int]
) -> str:
    pieces, run = [], []
    for number in ids:
        if known(number):
            run.append(number)
        else:
            pieces += [decode(run), "\ufffd"]
            run = []
    return "".join([*pieces, decode(run)])


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _readable(text: str) -> str:
    """Return the text without lone surrogates, which are no Unicode and have no bytes."""
    if text.isascii():  # known without looking
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
