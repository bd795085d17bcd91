"""A class by value: pickled, with its source beside it, and loaded only when asked.

Cloudpickle does the work; here it keeps what it would lose: where the code was written, "no default"
in a dataclass, types that a dataclass names only as text, and class attributes that repeat what is
inherited (they are part of the class's digest, and so of its run).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import inspect
import io
import linecache
import pickle
import re
import sys
import zlib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, is_dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from theseus.errors import UserError

_Losses = tuple[dict[str, Any], list[str]]
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_scripts: set[str] = set()


class CodeError(UserError):
    """A job's class cannot be sent, or cannot be found here."""


def mark_script(module: str) -> None:
    """Say that the classes of this module cannot be imported by name elsewhere."""
    _scripts.add(module)


def is_script(module: str) -> bool:
    """Tell whether `mark_script` was called for this module."""
    return module in _scripts


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
            loaded, losses = pickle.loads(zlib.decompress(base64.b64decode(self.payload)))
        except (binascii.Error, zlib.error, pickle.UnpicklingError, EOFError) as error:
            msg = f"the class in this file is damaged: {error}"
            raise CodeError(msg) from error
        except (ImportError, AttributeError) as error:
            msg = f"the class in this file needs something that is missing here: {error}"
            raise CodeError(msg) from error
        for cls, (types, repeated) in losses:
            for name, hint in types.items():
                cls.__dataclass_fields__[name].type = hint
            for name in repeated:
                if name not in vars(cls):
                    setattr(cls, name, inspect.getattr_static(cls, name))
        return loaded


def is_importable(cls: type) -> bool:
    """Tell whether another process finds this very class under its module and name."""
    module = sys.modules.get(cls.__module__)
    if module is None or cls.__module__ in {"__main__", "__mp_main__"} | _scripts:
        return False
    found: Any = module
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is cls and getattr(module, "__spec__", None) is not None


def _pickle(job_class: type, sources: dict[str, str]) -> bytes:
    """Return the pickle of the class, with what cloudpickle leaves out of the user's classes."""
    import cloudpickle

    losses: list[tuple[type, _Losses]] = []
    modules = [sys.modules[name] for name in sorted(_scripts) if name in sys.modules]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        while True:
            buffer = io.BytesIO()
            by_value: dict[type, None] = {}
            _pickler(buffer, by_value, sources).dump((job_class, losses))
            found = [(cls, (_text_hints(cls), _repeated(cls))) for cls in by_value]
            if len(found) == len(losses):
                return buffer.getvalue()
            losses = found  # a type may itself be one of the user's dataclasses
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _repeated(cls: type) -> list[str]:
    return [
        name
        for name, value in vars(cls).items()
        if not name.startswith("__")
        and any(vars(base).get(name, MISSING) is value for base in cls.__mro__[1:])
    ]


def _text_hints(cls: type) -> dict[str, Any]:
    """Return the types that are text under `from __future__ import annotations`.

    They would be looked up in a module that is not there on the other side.
    """
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


def _is_library(filename: str) -> bool:
    from theseus.runs.code import is_installed

    file = Path(filename)
    return file.is_file() and (is_installed(file) or file.is_relative_to(Path(__file__).parent))


def _source_name(filename: str, sources: dict[str, str]) -> str:
    """Return a name for a source file that says nothing about this machine, keeping its text."""
    lines = linecache.getlines(filename)
    if not lines or _is_library(filename):
        return "<string>"  # what `dataclass` and `exec` write has no file; ours is there already
    text = "".join(lines)
    stem = re.sub(r"\W+", "-", filename.replace("\\", "/").rpartition("/")[2].removesuffix(".py"))
    stem = "cell" if stem.strip("-").isdecimal() or not stem.strip("-") else stem.strip("-")
    name = f"{stem}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}.py"
    sources[name] = text
    return name
