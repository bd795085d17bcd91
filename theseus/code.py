"""How a job's class gets to another process: by key, by import path, or inside the file.

A class that another process can import travels as its name. One that it cannot, because it was
written in a notebook cell, in `__main__` or in a script given by `--import`, travels by value (see
`theseus._travel`). Reading a file never unpickles; only `load` does, when the job is about to run.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from theseus import _plain, registry
from theseus._travel import CodeError, Travelling, is_importable, is_script, mark_script
from theseus.errors import did_you_mean

if TYPE_CHECKING:
    from theseus.job import Job

__all__ = ["CodeError", "JobReference", "Travelling", "job_class", "mark_script"]


@dataclass(frozen=True)
class JobReference:
    """Which class a recipe runs, said so that another process can find it.

    Attributes
    ----------
    key
        The key under which it is registered, if any.
    path
        `module:Class`; None for what is built in, where the key says all.
    travelling
        The class itself, when `path` means nothing elsewhere.
    """

    key: str | None
    path: str | None = None
    travelling: Travelling | None = None

    @property
    def name(self) -> str:
        """How messages call it: the key, or the path of the class."""
        return self.key or self.path or ""

    @classmethod
    def of(cls, job_class: type[Job]) -> JobReference:
        """Return the reference to a class."""
        key = registry.key_of("job", job_class)
        path = f"{job_class.__module__}:{job_class.__qualname__}"
        if key is not None and job_class.__module__.partition(".")[0] == "theseus":
            return cls(key)
        if is_importable(job_class):
            return cls(key, path)
        return cls(key, path, Travelling.of(job_class))

    def to_plain(self) -> Any:
        """Return it as plain values, for a file."""
        if self.path is None:
            return self.key
        plain: dict[str, Any] = {} if self.key is None else {"key": self.key}
        plain["class"] = self.path
        if self.travelling is not None:
            sources = {name: text.split("\n") for name, text in self.travelling.sources.items()}
            plain |= {
                "python": self.travelling.python,
                "digest": self.travelling.digest,
                "sources": sources,
                "payload": self.travelling.payload,
            }
        return plain

    @classmethod
    def from_plain(cls, job: Any) -> JobReference:
        """Return what `to_plain` wrote; nothing is imported or unpickled."""
        if isinstance(job, str) and job:
            return cls(job)
        given = _plain.mapping("job", job)
        known = ["key", "class", "python", "digest", "sources", "payload"]
        _plain.only("job", given, known)
        key = None if given.get("key") is None else _plain.text("job.key", given["key"])
        path = _plain.text("job.class", given.get("class"))
        if "payload" not in given:
            return cls(key, path)
        sources = {
            _plain.text("job.sources", name): "\n".join(
                map(str, _plain.items(f"job.sources.{name}", lines))
            )
            for name, lines in _plain.mapping("job.sources", given.get("sources") or {}).items()
        }
        travelling = Travelling(
            _plain.text("job.python", given.get("python")),
            str(given.get("digest") or ""),
            sources,
            _plain.text("job.payload", given["payload"]),
        )
        return cls(key, path, travelling)

    def load(self) -> type[Job]:
        """Return the class; only now is code imported or unpickled.

        What is registered under the key here comes first when it is the same code, and when it is
        from a script given with `--import`: the user named that script just now.
        """
        if self.key is None:
            return job_class(self._elsewhere())
        here = {entry.key: entry.target for entry in registry.entries("job")}.get(self.key)
        if self.path is None or (isinstance(here, type) and self._is_replaced_by(here)):
            return job_class(registry.find("job", self.key))
        found = job_class(self._elsewhere())
        if here is None:
            registry.job(self.key)(found)  # it had this key when it was saved
        return found

    def _is_replaced_by(self, here: type) -> bool:
        if is_script(here.__module__):
            return True
        if self.travelling is None:
            return False
        from theseus.runs.code import code_digest

        return code_digest(here) == self.travelling.digest

    def _elsewhere(self) -> Any:
        return self.travelling.load() if self.travelling else _by_path(self.path or "")


def job_class(found: Any) -> type[Job]:
    """Return `found` when it is a job, or say what it is instead."""
    from theseus.job import Job

    if isinstance(found, type) and issubclass(found, Job):
        return found
    named = getattr(found, "__qualname__", None) or repr(found)
    kind = next(
        (kind for kind in ("dataset", "evaluation") if registry.key_of(kind, found)), None
    )  # fmt: skip
    what = f"is a {kind}, not a job" if kind else "is not a job"
    hint = (
        "a dataset goes into the DATASET of a job"
        if kind == "dataset"
        else (
            "give the key of one (`theseus jobs`) or a class made from BaseTrainer, "
            "TokenizeVariableDatasetJob or Job"
        )
    )
    msg = f"{named} {what}; {hint}"
    raise CodeError(msg)


def _by_path(path: str) -> Any:
    module_name, _, qualname = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        msg = (
            f"there is no module '{module_name}' here, which holds {qualname}; run this from the "
            "project's folder, or give the file that defines the class with --import"
        )
        raise CodeError(msg) from error
    for part in qualname.split("."):
        if not hasattr(found, part):
            msg = f"module '{module_name}' has no '{qualname}'{did_you_mean(part, dir(found))}"
            raise CodeError(msg)
        found = getattr(found, part)
    return found
