"""Opening the token files of a mixture, and refusing those that do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from theseus import registry
from theseus.config import ConfigError, keys_of
from theseus.data._settings import settings_of
from theseus.data.datasets.base import Dataset
from theseus.data.datasets.sampling import Sampling
from theseus.data.token_file import META, Kind, Sidecar, TokenFile, dataset_key, token_folder
from theseus.data.token_writer import unfinished_folder
from theseus.data.tokenizer import identity_differences
from theseus.errors import UserError

KINDS: dict[str, Kind] = {"pmd": "packed", "padded": "rows", "contrastive": "pairs"}


class Rows:
    """One split of one dataset, as rows of `block_size` targets.

    A packed file is cut into rows that overlap by one token, so that every token but the very first
    is a target once; the last row may be shorter. A file of rows has the rows that it has, cut where
    they are too long.
    """

    def __init__(self, file: TokenFile, block_size: int) -> None:
        self._file = file
        self._block = block_size
        self.packed = file.sidecar.kind == "packed"
        self.count = -(-max(len(file) - 1, 0) // block_size) if self.packed else file.documents

    def fill(self, row: int, tokens: npt.NDArray[np.int32], weights: npt.NDArray[Any]) -> int:
        """Write a row into `tokens` (block_size + 1) and the weights of its targets, both zeroed.

        Returns the number of real tokens.
        """
        file = self._file
        if self.packed:
            start = row * self._block
            stop = min(start + self._block + 1, len(file))
            weights[: stop - start - 1] = 1
        else:
            start = int(file.ends[row - 1]) if row else 0
            stop = min(start + self._block + 1, int(file.ends[row]))
            weights[: stop - start - 1] = file.mask[start + 1 : stop]
        tokens[: stop - start] = file.tokens[start:stop]
        return stop - start

    def notes(self) -> list[str]:
        """Return what is worth telling about rows that a block cuts, a line each."""
        if self.packed or not self.count:
            return []
        ends = self._file.ends.astype(np.int64)
        starts = np.concatenate([[0], ends[:-1]])
        cut = int((ends - starts > self._block + 1).sum())
        unlearnt = sum(
            not self._file.mask[start + 1 : min(start + self._block + 1, end)].any()
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        )
        told = []
        if cut:
            told.append(f"{cut} of {self.count} rows are cut to {self._block} tokens")
        if unlearnt:
            told.append(f"{unlearnt} of {self.count} rows have nothing to learn in them")
        return told


class Source:
    """The token files of one `Sampling`."""

    def __init__(
        self,
        sampling: Sampling,
        root: Path,
        block_size: int,
        suffix: str,
        tokenizer: Mapping[str, Any] | None,
    ) -> None:
        given = sampling.dataset
        cls = registry.find("dataset", given) if isinstance(given, str) else given
        self.name = dataset_key(given)
        self.sampling = sampling
        folder = token_folder(root, self.name, suffix, KINDS[sampling.style])
        if not (folder / META).is_file():
            raise UserError(_missing(cls, self.name, sampling, root, folder, suffix, tokenizer))
        self.sidecar = Sidecar.read(folder)
        _check_settings(cls, self.name, self.sidecar)
        if tokenizer is not None:
            check_tokenizer(self.name, self.sidecar.tokenizer, tokenizer)
        self.train, self.val = (
            Rows(TokenFile(folder, split, self.sidecar), block_size) for split in ("train", "val")
        )
        tokens = self.sidecar.tokens["train"]
        if self.train.packed and tokens - 1 < block_size:
            least = f"at most {tokens - 1}" if tokens > 1 else "impossible with so few"
            msg = (
                f"architecture.block_size is {block_size}, but '{self.name}' has only {tokens} "
                f"tokens for training: {least}; lower architecture.block_size or tokenize more text"
            )
            raise UserError(msg)
        if not self.train.count:
            msg = f"'{self.name}' in {folder} has no rows for training; lower data.val_pct"
            raise UserError(msg)


def check_tokenizer(name: str, made: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse tokens that were made with another tokenizer than the one that is wanted."""
    changed = identity_differences(made, wanted)
    if changed:
        named = f", tokenizer.name='{made['name']}'" if made["name"] else ""
        msg = (
            f"the tokens of '{name}' were made with another tokenizer than the one that is "
            f"configured ({'; '.join(changed)})\n"
            f"set tokenizer.backend='{made['backend']}'{named} as it was then, or tokenize again "
            "with the new one and another data.suffix"
        )
        raise UserError(msg)


def _check_settings(cls: type, name: str, sidecar: Sidecar) -> None:
    config = getattr(cls, "CONFIG", None)
    if config is None:
        return
    try:
        wanted = settings_of(config)
    except ConfigError:
        return  # the trainer does not have the dataset's keys: any text of that name will do
    where = {keys_of(config).get(field) for field in getattr(cls, "WHERE", ())}
    made = sidecar.dataset["settings"]
    told = [
        f"\n  {key}: {made[key]!r} then, {value!r} now"
        for key, value in wanted.items()
        # A key that is left empty asks for nothing.
        if key in made and key not in where and value not in (None, "", []) and value != made[key]
    ]
    if told:
        msg = (
            f"the tokens of '{name}' were made from other text than is configured:{''.join(told)}\n"
            "set the keys as they were, or tokenize again with another data.suffix"
        )
        raise UserError(msg)


def _missing(
    cls: type,
    name: str,
    sampling: Sampling,
    root: Path,
    folder: Path,
    suffix: str,
    tokenizer: Mapping[str, Any] | None,
) -> str:
    key = _job_for(cls, KINDS[sampling.style])
    base = (
        "TokenizeVariableDatasetJob" if sampling.style == "pmd" else "TokenizeBlockwiseDatasetJob"
    )
    lines = [f"there are no tokens of '{name}' yet (no {folder}); make them first:"]
    if unfinished_folder(folder).exists():
        lines = [f"the tokens of '{name}' are not complete; go on with the job that was stopped:"]
    job, run = repr(key), f"tokenize-{name}"
    if key is None:
        job = f"Tokenize{cls.__name__}"
        lines += [
            f"    from theseus.data.tokenize import {base}",
            f"    class {job}({base}):",
            f"        DATASET = {cls.__name__}",
        ]
    lines += [
        f"    with quick({str(root)!r}) as q:",
        f"        q.build({job}, {run!r})",
    ]
    if suffix:
        lines.append(f"        q.config.data.suffix = {suffix!r}")
    if tokenizer is not None and tokenizer["backend"] != "bytes":
        lines += [
            f"        q.config.tokenizer.backend = {tokenizer['backend']!r}",
            f"        q.config.tokenizer.name = {tokenizer['name']!r}",
        ]
    lines.append("        q.create()()")
    here = token_folder(root, name).name
    others = [path.name for path in folder.parent.glob(f"{here}*") if (path / META).is_file()]
    if others:
        lines.append(f"(there are, with another data.suffix or style: {', '.join(sorted(others))})")
    return "\n".join(lines)


def _job_for(cls: type, kind: Kind) -> str | None:
    """Return the key of a registered job that writes this dataset's tokens."""
    from theseus.data.tokenize import TokenizeJob

    for entry in registry.entries("job"):
        if isinstance(entry.target, str) and not entry.target.startswith("theseus.data."):
            continue  # a trainer: its module imports JAX
        job = entry.load()
        if issubclass(job, TokenizeJob) and _same(job.DATASET, cls) and job.kind() == kind:
            return entry.key
    return None


def _same(one: type[Dataset[Any]] | None, other: type) -> bool:
    return one is other or (
        one is not None
        and (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
    )
