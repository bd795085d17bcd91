"""What a project's `pyproject.toml` says about what it needs to run."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from theseus.dispatch._listing import BundleError

PACKAGE = "theseus-jupyter"
_NAME = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)")
_EXTRA = re.compile(r"""\s*(?:and\s+)?extra\s*==\s*["']([^"']+)["']\s*""")
_SELF = re.compile(rf"{PACKAGE}\[([^\]]+)\]")
# Build systems that compile: their packages must be built, and cannot be imported from the tree.
_COMPILING = re.compile(
    r"maturin|scikit-build|meson|cython|pybind11|nanobind|cffi|numpy", re.IGNORECASE
)


@dataclass(frozen=True)
class Manifest:
    """What a project needs, as far as a host must know to prepare for it.

    Attributes
    ----------
    present
        Whether there is a `pyproject.toml` with a `[project]` or `[tool.uv]` table.
    groups, extras
        The names of its dependency groups and extras.
    tied
        Whether its environment holds packages of its own tree (path sources, a workspace, code that
        must be compiled), so that it cannot be shared by other states of the tree.
    dynamic
        Whether its metadata are worked out from its files, so that resolving needs those.
    import_paths
        Where its modules are, relative to it.
    lock, text
        The bytes of `uv.lock` and `pyproject.toml`; empty when there is none.
    """

    present: bool = False
    name: str | None = None
    groups: frozenset[str] = frozenset()
    extras: frozenset[str] = frozenset()
    needs_theseus: bool = False
    tied: bool = False
    dynamic: bool = False
    import_paths: tuple[str, ...] = ("",)
    python: str | None = None
    lock: bytes = b""
    text: bytes = b""

    @property
    def is_theseus(self) -> bool:
        """Whether the project is this package itself."""
        return self.name == PACKAGE

    @property
    def brings_theseus(self) -> bool:
        """Whether theseus is there on the other side without being sent.

        A project names it among its dependencies; that helps only when what is installed here comes
        from an index, where the other side finds it too.
        """
        return self.is_theseus or (self.needs_theseus and from_index())


def read_manifest(folder: Path | None) -> Manifest:
    """Return what the project in `folder` needs."""
    path = None if folder is None else folder / "pyproject.toml"
    if folder is None or path is None or not path.is_file():
        return Manifest()
    text = path.read_bytes()
    try:
        data = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"{path} is not TOML: {error}"
        raise BundleError(msg) from error
    project = _table(data, "project")
    tool = _table(data, "tool", "uv")
    groups = _table(data, "dependency-groups")
    extras = _table(project, "optional-dependencies")
    lists = [project.get("dependencies"), *groups.values(), *extras.values()]
    needed = {canonical(one) for items in lists for one in _requirements(items)}
    name = project.get("name")
    lock = folder / "uv.lock"
    version = folder / ".python-version"
    return Manifest(
        present=bool(project),
        name=canonical(name) if isinstance(name, str) else None,
        groups=frozenset(groups),
        extras=frozenset(extras),
        needs_theseus=PACKAGE in needed,
        tied=_is_tied(data, tool),
        dynamic=bool(project.get("dynamic")),
        import_paths=_import_paths(folder, tool),
        python=version.read_text("utf-8", "replace").strip() or None if version.is_file() else None,
        lock=lock.read_bytes() if lock.is_file() else b"",
        text=text,
    )


def _is_tied(data: Mapping[str, Any], tool: Mapping[str, Any]) -> bool:
    sources = [
        one
        for name, given in _table(tool, "sources").items()
        if canonical(name) != PACKAGE  # which is sent when it comes from a path
        for one in (given if isinstance(given, list) else [given])
    ]
    if any(isinstance(one, Mapping) and {"path", "workspace"} & set(one) for one in sources):
        return True
    system = _table(data, "build-system")
    build = " ".join([str(system.get("build-backend", "")), *_requirements(system.get("requires"))])
    return bool(_COMPILING.search(build))


def _import_paths(folder: Path, tool: Mapping[str, Any]) -> tuple[str, ...]:
    found = ["src", ""] if (folder / "src").is_dir() else [""]
    members = _table(tool, "workspace").get("members")
    for pattern in members if isinstance(members, list) else []:
        if not isinstance(pattern, str) or Path(pattern).is_absolute():
            continue
        for member in sorted(folder.glob(pattern)):
            if member.is_dir():
                inner = member / "src"
                found.append((inner if inner.is_dir() else member).relative_to(folder).as_posix())
    return tuple(dict.fromkeys(found))


def _table(data: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        inner = data.get(name)
        data = inner if isinstance(inner, Mapping) else {}
    return data


def _requirements(items: Any) -> Iterator[str]:
    yield from (one for one in items if isinstance(one, str)) if isinstance(items, list) else ()


def canonical(requirement: str) -> str:
    """Return the name in a requirement, as an index spells it: `Theseus_Jupyter>=1` → its name."""
    found = _NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""


# Theseus itself, as it is installed here.


@cache
def from_index() -> bool:
    """Return whether the theseus that runs here was installed from an index."""
    try:
        distribution = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        return False
    if distribution.read_text("direct_url.json") is not None:
        return False
    # A checkout on the path of imports hides what is installed.
    installed = distribution.locate_file("theseus")
    return Path(str(installed)).resolve() == Path(__file__).resolve().parents[1]


def own_extras() -> frozenset[str]:
    """Return the names of theseus's own extras."""
    return frozenset(_own_requirements())


def own_requirements(extras: Iterable[str] = ()) -> list[str]:
    """Return what theseus needs, with these extras; names of its own extras are resolved."""
    known = _own_requirements()
    found: dict[str, None] = {}
    waiting = ["", *extras]
    seen: set[str] = set()
    while waiting:
        extra = waiting.pop(0)
        if extra in seen:
            continue
        seen.add(extra)
        for requirement in known.get(extra, ()):
            inner = _SELF.match(requirement)
            if inner:
                waiting += [part.strip() for part in inner[1].split(",")]
            else:
                found[requirement] = None
    return list(found)


@cache
def _own_requirements() -> Mapping[str, tuple[str, ...]]:
    """Return extra → requirements, `""` for those without."""
    found: dict[str, list[str]] = {"": []}
    try:
        distribution = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        return {"": ()}
    for extra in distribution.metadata.get_all("Provides-Extra") or ():
        found.setdefault(extra, [])
    for line in distribution.requires or ():
        requirement, _, marker = line.partition(";")
        extra = _EXTRA.search(marker)
        rest = _EXTRA.sub(" ", marker).strip().strip("()").strip()
        rest = re.sub(r"\s*and\s*$", "", rest)
        text = requirement.strip() + (f"; {rest}" if rest else "")
        found.setdefault(extra[1] if extra else "", []).append(text)
    return {name: tuple(lines) for name, lines in found.items()}


def pins(requirements: Iterable[str]) -> list[str]:
    """Return `name==version` for those requirements that are installed here."""
    found = {}
    for requirement in requirements:
        name = canonical(requirement)
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return [f"{name}=={version}" for name, version in sorted(found.items())]
