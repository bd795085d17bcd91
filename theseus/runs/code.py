"""The digest of the user's own code behind a job: the part of a run that its config cannot say.

What counts is what the job can reach: its class, the classes that it names (`MODEL`, `DATASET`,
`CONFIG`, …), and the functions and classes of the same project that their methods use. Comments
and layout do not count, nor does code that the job never touches, so that an unfinished run goes on
after an unrelated edit. Installed packages and theseus itself do not count either: their versions
are written down in `run.json`.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import inspect
import sys
import sysconfig
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from theseus.runs.names import canonical

_DEEP = 6  # how far into the values of class attributes classes are looked for


def code_digest(*roots: Any) -> str:
    """Return the digest of the user's code that these classes and functions reach."""
    seen: dict[int, Any] = {}  # keeps them alive, so that an id means one thing
    parts: set[tuple[str, str]] = set()
    waiting = list(roots)
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or not _is_users(thing):
            continue
        seen[id(thing)] = thing
        if isinstance(thing, type):
            parts.update(_class_parts(thing))
            waiting.extend(thing.__mro__)
            for value in vars(thing).values():
                waiting.extend(_reached(value))
        else:
            parts.add((thing.__qualname__, _source(thing)))
            waiting.extend(_used(thing))
    return hashlib.sha256(canonical(sorted(parts))).hexdigest()[:16] if parts else ""


def _class_parts(cls: type) -> Iterator[tuple[str, str]]:
    yield cls.__qualname__, " ".join(base.__qualname__ for base in cls.__bases__)
    for name, value in vars(cls).items():
        described = "" if name.startswith("__") else _described(value)
        if described:
            yield f"{cls.__qualname__}.{name}", described
        for function in _functions(value):
            if function.__module__ == cls.__module__:
                yield f"{cls.__qualname__}.{name}", _source(function)


def _described(value: Any, depth: int = _DEEP) -> str:
    """Return a text of a class attribute's value that is the same in every process.

    `DATASET = [Sampling(A, 0.5, "pmd")]` is as much a part of a run as its configuration. The text
    is empty for nothing, and for what only a library can read: what Flax keeps in a class, say,
    changes with the version of Flax.
    """
    if isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if isinstance(value, type | FunctionType):
        return value.__qualname__
    if depth == 0:
        return ""
    if isinstance(value, Mapping | list | tuple | set | frozenset) and not value:
        return ""
    kind = type(value).__qualname__
    if isinstance(value, Mapping):
        pairs = sorted((str(key), _described(item, depth - 1)) for key, item in value.items())
        return f"{kind}{pairs}"
    if isinstance(value, list | tuple):
        return f"{kind}{[_described(item, depth - 1) for item in value]}"
    if isinstance(value, set | frozenset):
        return f"{kind}{sorted(_described(item, depth - 1) for item in value)}"
    if dataclasses.is_dataclass(value) and _is_readable(type(value)):
        return f"{kind}{_described(_fields(value), depth - 1)}"
    return ""


def _fields(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}


def _functions(value: Any) -> Iterator[FunctionType]:
    """Yield the plain functions behind a class attribute."""
    if isinstance(value, property):
        for part in (value.fget, value.fset, value.fdel):
            yield from _functions(part)
        return
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    elif isinstance(value, functools.cached_property):
        value = value.func
    value = inspect.unwrap(value) if callable(value) else value
    if isinstance(value, FunctionType) and value.__code__.co_filename != "<string>":
        yield value  # a file named "<string>" holds what `dataclass` wrote


def _reached(value: Any, depth: int = _DEEP) -> Iterator[Any]:
    """Yield the classes and functions in a class attribute, such as a list of samplings."""
    if isinstance(value, type):
        yield value
        return
    for function in _functions(value):
        yield from _used(function)
    if depth == 0 or isinstance(value, str | bytes):
        return
    inner: Iterable[Any] = ()
    if isinstance(value, list | tuple | set | frozenset):
        inner = value
    elif isinstance(value, Mapping):
        inner = value.values()
    elif dataclasses.is_dataclass(value):
        inner = _fields(value).values()
    for item in inner:
        yield from _reached(item, depth - 1)


def _used(function: FunctionType) -> Iterator[Any]:
    """Yield the functions and classes of the function's module-level names that it uses."""
    for name in _names(function.__code__):
        value = function.__globals__.get(name)
        if isinstance(value, type | FunctionType):
            yield value
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # not filled yet, as in a class body that is still being read
            continue
        if isinstance(value, type | FunctionType):
            yield value


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _source(function: FunctionType) -> str:
    try:
        source = textwrap.dedent(inspect.getsource(function))
        return ast.unparse(ast.parse(source))
    except (OSError, TypeError, SyntaxError):  # typed into a plain prompt, or one line among others
        return _bytecode(function.__code__)


def _bytecode(code: CodeType) -> str:
    constants = [_constant(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return _bytecode(value)
    if isinstance(value, frozenset):  # its order differs from one process to the next
        return repr(sorted(map(repr, value)))
    return repr(value)


def _is_readable(cls: type) -> bool:
    """Return whether a value of this class says something that the user wrote."""
    return cls.__module__.startswith("theseus.") or _is_users(cls)


def _is_users(thing: Any) -> bool:
    if not isinstance(thing, type | FunctionType):
        return False
    name = getattr(thing, "__module__", None) or ""
    if name == "theseus" or name.startswith("theseus."):
        return False
    return _is_users_module(name, sys.modules.get(name))


def _is_users_module(name: str, module: ModuleType | None) -> bool:
    if name == "__main__" or module is None:
        return True
    file = getattr(module, "__file__", None)
    return file is not None and not is_installed(Path(file))


def is_installed(file: Path) -> bool:
    """Return whether a source file belongs to this interpreter's library or its packages."""
    places = {"stdlib", "platstdlib", "purelib", "platlib"}
    roots = {Path(sysconfig.get_path(place)).resolve() for place in places}
    file = file.resolve()
    return not {"site-packages", "dist-packages"}.isdisjoint(file.parts) or any(
        file.is_relative_to(root) for root in roots
    )
