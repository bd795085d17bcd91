"""Text ↔ token ids: bytes, a `tokenizer.json`, or an encoding of tiktoken.

Whatever the backend, text is only ever text: a document that contains `<|endoftext|>` gets no
control token from it. The one end-of-document token is appended by whoever writes documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from theseus.config import field
from theseus.data._backends import (
    END,
    BytesTokenizer,
    HuggingFaceTokenizer,
    Ids,
    TiktokenTokenizer,
    available_cores,
)
from theseus.data._files import path_safe
from theseus.errors import UserError, did_you_mean, not_installed

if TYPE_CHECKING:
    import tiktoken

__all__ = [
    "END",
    "BytesTokenizer",
    "HuggingFaceTokenizer",
    "Ids",
    "TiktokenTokenizer",
    "Tokenizer",
    "TokenizerConfig",
    "available_cores",
    "find_tokenizer_file",
    "identity_differences",
    "load_tokenizer",
]


@dataclass
class TokenizerConfig:
    """Which tokenizer."""

    backend: str = field(
        "tokenizer/backend",
        default="bytes",
        choices=("bytes", "huggingface", "tiktoken"),
        help="bytes needs no files; huggingface reads a tokenizer.json; tiktoken has OpenAI's",
    )
    name: str = field(
        "tokenizer/name",
        default="",
        help="tiktoken: an encoding; huggingface: a path, or a name given to data/tokenizer/train",
    )
    eos: str = field(
        "tokenizer/eos",
        default="",
        help="the token that ends a document; empty: the one that is usual for the tokenizer",
    )


class Tokenizer(Protocol):
    """What the data room asks of a tokenizer."""

    @property
    def vocab_size(self) -> int:
        """One more than the greatest id."""

    @property
    def eos_id(self) -> int:
        """The id that ends a document; no text is ever encoded to it."""

    def identity(self) -> dict[str, Any]:
        """Return backend, name, vocab_size, eos and sha256: what token files say of it."""

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text, working on all cores; no end-of-document is added."""

    def decode(self, ids: Sequence[int] | Ids) -> str:
        """Return the text of these ids; the end of a document is shown as its name."""


def load_tokenizer(config: TokenizerConfig, root: Path) -> Tokenizer:
    """Return the tokenizer that `config` names; `root` is where trained ones are kept.

    Raises
    ------
    UserError
        When it is not there, cannot be fetched, or has no end-of-document token.
    """
    if config.backend == "bytes":
        if config.name or config.eos not in {"", END}:
            key = "tokenizer.name" if config.name else "tokenizer.eos"
            msg = (
                f"the tokenizer 'bytes' has no choices, but {key} is set; "
                "set tokenizer.backend to 'huggingface' or 'tiktoken', or leave the key empty"
            )
            raise UserError(msg)
        return BytesTokenizer()
    if config.backend == "huggingface":
        return HuggingFaceTokenizer(find_tokenizer_file(config.name, root), config.name, config.eos)
    return TiktokenTokenizer(_tiktoken_encoding(config.name), config.eos)


def identity_differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return what differs between two identities, as `"vocab_size: 257 ≠ 50257"`.

    The name does not count: the same vocabulary may lie at another path on another machine.
    """
    found = [
        f"{key}: {one.get(key)} ≠ {other.get(key)}"
        for key in ("backend", "vocab_size", "eos")
        if one.get(key) != other.get(key)
    ]
    if not found and one.get("sha256") != other.get("sha256"):
        found = ["the vocabularies are of the same size but differ"]
    return found


def find_tokenizer_file(name: str, root: Path) -> Path:
    """Return the `tokenizer.json` at a path, or of a tokenizer trained under `root`."""
    trained_in = root / "tokenizers"
    if not name:
        msg = (
            "tokenizer.name is empty: for tokenizer.backend=huggingface it is the path of a "
            "tokenizer.json, or the name given to data/tokenizer/train"
        )
        raise UserError(msg)
    given = Path(name).expanduser()
    for path in (given, given / "tokenizer.json", trained_in / path_safe(name) / "tokenizer.json"):
        if path.is_file():
            return path
    known = sorted(path.parent.name for path in trained_in.glob("[!.]*/tokenizer.json"))
    have = f"; trained here: {', '.join(known)}" if known else ""
    msg = (
        f"tokenizer.name: '{name}' is neither a tokenizer.json nor trained in {trained_in}"
        f"{did_you_mean(name, known)}{have}\n"
        f"train it: q.build('data/tokenizer/train', '{name}') with "
        f"q.config.data.tokenizer.name = '{name}'; or download the tokenizer.json of a model and "
        "set its path"
    )
    raise UserError(msg)


def _tiktoken_encoding(name: str) -> tiktoken.Encoding:
    try:
        import tiktoken
    except ImportError:
        raise not_installed("this tokenizer", "tiktoken") from None
    known = tiktoken.list_encoding_names()
    if name not in known:
        hint = did_you_mean(name, known)
        msg = f"tokenizer.name: tiktoken has no encoding '{name}'{hint} (known: {', '.join(known)})"
        raise UserError(msg)
    try:
        return tiktoken.get_encoding(name)
    except (OSError, ValueError) as error:  # the errors of requests are OSErrors
        reason = str(error).split("\n", maxsplit=1)[0]
        msg = (
            f"the files of the tiktoken encoding '{name}' are not on this machine and could not "
            f"be fetched: {reason}\n"
            f"run `python -c \"import tiktoken; tiktoken.get_encoding('{name}')\"` with "
            "TIKTOKEN_CACHE_DIR set to a folder on a machine with a network, copy the folder here "
            "and set TIKTOKEN_CACHE_DIR to it; or use tokenizer.backend=bytes, or train one by "
            "the job data/tokenizer/train"
        )
        raise UserError(msg) from error
