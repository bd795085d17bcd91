"""How a job's class gets to another process: by key, by import path, or inside the file.

A class that another process can import travels as its name. One that it cannot, because it was
written in a notebook cell, in `__main__` or in a script given by `--import`, travels by value: the
pickled class and, beside it, the source it came from. Reading a file never unpickles; only `load`
does, when the job is about to run.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import importlib
import io
import linecache
import pickle
import re
import sys
import zlib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, is_dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any

from theseus import _plain, registry
from theseus.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from theseus.job import Job

_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_scripts: set[str] = set()


class CodeError(UserError):
    """A job's class cannot be sent, or cannot be found here."""


def mark_script(module: str) -> None:
    """Say that the classes of this module cannot be imported by name elsewhere."""
    _scripts.add(module)


@dataclass(frozen=True)
class Travelling:
    """A class by value, as text.

    Attributes
    ----------
    python
        The version that pickled it: byte code is good for that one alone.
    digest
        What `theseus.runs.code.code_digest` says of the class; two are equal when this is.
    sources
        File name → text of the cells or files that the code was written in.
    payload
        The pickled class, compressed, in base64.
    """

    python: str
    digest: str
    sources: Mapping[str, str] = field(compare=False)
    payload: str = field(compare=False, repr=False)

    @classmethod
    def of(cls, job_class: type) -> Travelling:
        """Return the class by value; nothing of the user's is run."""
        from theseus.runs.code import code_digest

        sources: dict[str, str] = {}
        try:
            pickled = _pickle(job_class, sources)
        except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
            msg = (
                f"{job_class.__qualname__} cannot be sent to another process: {error}; "
                "put it into a module of your project and import it from there"
            )
            raise CodeError(msg) from error
        payload = base64.b64encode(zlib.compress(pickled, 9)).decode("ascii")
        return cls(_PYTHON, code_digest(job_class), dict(sorted(sources.items())), payload)

    def load(self) -> type:
        """Return the class. This runs code that came with the file."""
        if self.python != _PYTHON:
            msg = (
                f"the class in this file was written with Python {self.python}, this is {_PYTHON}; "
                f"use Python {self.python}, or give the script again with --import"
            )
            raise CodeError(msg)
        for name, text in self.sources.items():
            # With its source the code keeps its digest, and so its run, and its tracebacks.
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        try:
            loaded: type
            loaded, hints = pickle.loads(zlib.decompress(base64.b64decode(self.payload)))
        except (binascii.Error, zlib.error, pickle.UnpicklingError, EOFError) as error:
            msg = f"the class in this file is damaged: {error}"
            raise CodeError(msg) from error
        except (ImportError, AttributeError) as error:
            msg = f"the class in this file needs something that is missing here: {error}"
            raise CodeError(msg) from error
        for cls, types in hints:
            for name, hint in types.items():
                cls.__dataclass_fields__[name].type = hint
        return loaded


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
        if here.__module__ in _scripts:
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


def is_importable(cls: type) -> bool:
    """Tell whether another process finds this very class under its module and name."""
    module = sys.modules.get(cls.__module__)
    if module is None or cls.__module__ in {"__main__", "__mp_main__"} | _scripts:
        return False
    found: Any = module
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is cls and getattr(module, "__spec__", None) is not None


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


def _pickle(job_class: type, sources: dict[str, str]) -> bytes:
    """Return the pickle of the class, with the types that its fields name only as text.

    Under `from __future__ import annotations` a field's type is text, to be looked up in a module
    that is not there on the other side.
    """
    import cloudpickle

    hints: list[tuple[type, dict[str, Any]]] = []
    modules = [sys.modules[name] for name in sorted(_scripts) if name in sys.modules]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        while True:
            buffer = io.BytesIO()
            by_value: dict[type, None] = {}
            _pickler(buffer, by_value, sources).dump((job_class, hints))
            found = [(cls, types) for cls in by_value if (types := _text_hints(cls))]
            if len(found) == len(hints):
                return buffer.getvalue()
            hints = found  # a type may itself be one of the user's dataclasses
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _text_hints(cls: type) -> dict[str, Any]:
    found = {}
    module = sys.modules.get(cls.__module__)
    for item in getattr(cls, "__dataclass_fields__", {}).values():
        if isinstance(item.type, str) and item.name in vars(cls).get("__annotations__", {}):
            try:
                hint = eval(item.type, dict(vars(module)) if module else {}, dict(vars(cls)))  # noqa: S307 - as `typing.get_type_hints` does
            except (NameError, AttributeError, TypeError, SyntaxError):
                continue  # a name that only a type checker sees; a key would have been refused
            if item.metadata or is_dataclass(hint):
                found[item.name] = hint
    return found


def _pickler(buffer: io.BytesIO, by_value: dict[type, None], sources: dict[str, str]) -> Any:
    """Return a pickler that keeps source positions and the identity of `dataclasses.MISSING`."""
    import cloudpickle

    reduce_code = cloudpickle.Pickler.dispatch_table[CodeType]

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            if obj is MISSING:
                # A copy of it is a default like any other: "no default" would get lost.
                return getattr, (sys.modules["dataclasses"], "MISSING")
            if isinstance(obj, type) and not is_importable(obj):
                by_value[obj] = None
            if isinstance(obj, CodeType):
                make, arguments = reduce_code(obj)
                name = _source_name(obj.co_filename, sources)
                # Cloudpickle writes one word for every file name.
                places = {"<dynamic-code>", obj.co_filename}
                return make, tuple(
                    name if isinstance(part, str) and part in places else part for part in arguments
                )
            return super().reducer_override(obj)

    return Pickler(buffer, protocol=5)


def _source_name(filename: str, sources: dict[str, str]) -> str:
    """Return a name for a source file that says nothing about this machine, keeping its text."""
    lines = linecache.getlines(filename)
    if not lines:
        return "<string>"  # what `dataclass` and `exec` write has no file
    text = "".join(lines)
    stem = re.sub(r"\W+", "-", filename.replace("\\", "/").rpartition("/")[2].removesuffix(".py"))
    stem = "cell" if stem.strip("-").isdecimal() or not stem.strip("-") else stem.strip("-")
    name = f"{stem}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}.py"
    sources[name] = text
    return name
