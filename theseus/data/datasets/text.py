"""Text files that the user names."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from theseus.config import configure, field
from theseus.data.datasets.base import StreamingPretrainingDataset
from theseus.errors import UserError, did_you_mean

_SAMPLED = 1 << 16  # of a larger file, so much at either end goes into its digest


@dataclass
class TextConfig:
    """Which files, and what counts as one document."""

    files: list[str] = field(
        "data/text/files", default=[], help="paths and globs of UTF-8 text files; ** for any depth"
    )
    documents: Literal["file", "paragraph", "line"] = field(
        "data/text/documents", default="file", help="what counts as one document"
    )


class Text(StreamingPretrainingDataset):
    """The named files, in the order of their paths."""

    CONFIG = TextConfig

    def __init__(self) -> None:
        args = configure(self.CONFIG)
        self._paths = _found(args.files)
        self._documents = args.documents

    @classmethod
    def check(cls) -> None:
        """Refuse an empty list and patterns that match nothing."""
        _found(configure(cls.CONFIG).files)

    def source(self) -> Mapping[str, Any]:
        """Return the number of files, their size, and a digest of their paths and contents."""
        digest, size = hashlib.sha256(), 0
        for path in self._paths:
            size += path.stat().st_size
            digest.update(f"{path} {path.stat().st_size}\n".encode())
            digest.update(_sample(path))
        return {"files": len(self._paths), "bytes": size, "sha256": digest.hexdigest()}

    def __iter__(self) -> Iterator[str]:
        for path in self._paths:
            try:
                with path.open(encoding="utf-8-sig") as file:
                    if self._documents == "file":
                        yield file.read()
                    elif self._documents == "line":
                        yield from (line.rstrip("\n") for line in file if line.strip())
                    else:
                        yield from _paragraphs(file)
            except UnicodeDecodeError as error:
                msg = (
                    f"{path} is not UTF-8 text: {error.reason} at byte {error.start}; convert it "
                    "(for example `iconv -f latin1 -t utf-8`) or leave it out of data.text.files"
                )
                raise UserError(msg) from None


def _found(patterns: Iterable[str]) -> list[Path]:
    found: set[Path] = set()
    for pattern in patterns:
        # A name may hold brackets: the path itself comes before its meaning as a pattern.
        expanded = Path(pattern).expanduser()
        matches = (
            [expanded]
            if expanded.exists()
            # Not Path.glob, which takes no absolute pattern.
            else [Path(match) for match in glob.glob(str(expanded), recursive=True)]  # noqa: PTH207
        )
        files = [path for path in matches if path.is_file()]
        if not files:
            raise UserError(_nothing(pattern, expanded, matches))
        found.update(files)
    if not found:
        msg = "data.text.files names no file; for example `q.config.data.text.files = ['*.txt']`"
        raise UserError(msg)
    return sorted(found, key=str)


def _nothing(pattern: str, expanded: Path, matches: list[Path]) -> str:
    if matches:
        return f"data.text.files: '{pattern}' is a folder; write '{Path(pattern) / '**' / '*.txt'}'"
    beside = [path.name for path in expanded.parent.iterdir()] if expanded.parent.is_dir() else []
    hint = did_you_mean(expanded.name, beside)
    where = "" if expanded.is_absolute() else f" (looked in {Path.cwd()})"
    return f"data.text.files: no file matches '{pattern}'{where}{hint}"


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    paragraph: list[str] = []
    for line in lines:
        if line.strip():
            paragraph.append(line)
        elif paragraph:
            yield "".join(paragraph).rstrip("\n")
            paragraph = []
    if paragraph:
        yield "".join(paragraph).rstrip("\n")


def _sample(path: Path) -> bytes:
    size = path.stat().st_size
    with path.open("rb") as file:
        content = file.read(_SAMPLED)
        if size > 2 * _SAMPLED:
            file.seek(size - _SAMPLED)
        return content + file.read(_SAMPLED)
