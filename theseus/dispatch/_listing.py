"""Which files make up a project: what git knows and does not ignore, or the folder.

Git decides where there is git: tracked files as they lie there now, and untracked ones that it does
not ignore. Elsewhere everything counts but caches, environments and what theseus itself wrote.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from theseus.errors import UserError

_EXCLUDED_FOLDERS = {
    ".bzr", ".cache", ".git", ".hg", ".hypothesis", ".ipynb_checkpoints", ".mypy_cache", ".nox",
    ".pytest_cache", ".ruff_cache", ".svn", ".tox", "__pycache__", "node_modules",
}  # fmt: skip
_EXCLUDED_FILES = re.compile(r"(\.DS_Store|\.env|.*\.py[co]|.*\.swp|.*~)", re.DOTALL)
_RUN = re.compile(r"(?:(.*)/)?runs/[^/]+/[^/]+/[^/]+/run\.json", re.DOTALL)
_DESCRIBED = re.compile(r"v?(\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?)-(\d+)-(g[0-9a-f]+)")


class BundleError(UserError):
    """The project cannot be sent as it is; the message says what to change."""


@dataclass(frozen=True)
class Commit:
    """Which commit the tree is at, and whether what lies there differs from it."""

    digest: str | None = None
    dirty: bool = False
    version: str | None = None  # what `git describe` comes to as a version, when there is a tag


@dataclass
class Listing:
    """The files of a tree, as relative paths, and what was left out on the way."""

    paths: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def git_top(folder: Path) -> Path | None:
    """Return the top of the git tree around `folder`; None when there is none or no git.

    A home folder that is kept in git is not taken for a project.
    """
    answer = _git(folder, "rev-parse", "--show-toplevel")
    if answer is None:
        return None
    top = Path(os.fsdecode(answer.rstrip(b"\n")))
    return None if is_home(top) else top


def is_home(folder: Path) -> bool:
    """Return whether a folder is a home folder or the root of the file system, not a project."""
    try:
        return folder.resolve() in {Path.home().resolve(), Path("/")}
    except RuntimeError:  # no home
        return False


def commit_of(top: Path) -> Commit:
    """Return where a git tree stands; untracked files that are not ignored make it dirty, too."""
    head = _git(top, "rev-parse", "--verify", "--quiet", "HEAD")
    changes = _git(top, "status", "--porcelain", "-z")
    described = _git(top, "describe", "--tags", "--long", "--always") or b""
    found = _DESCRIBED.fullmatch(described.decode("utf-8", "replace").strip())
    version = None
    if found:
        number, commits, digest = found.groups()
        version = number if commits == "0" and not changes else f"{number}.dev{commits}+{digest}"
    return Commit(head.decode().strip() if head else None, bool(changes), version)


def list_git(top: Path) -> Listing:
    """List the tracked and the untracked, not ignored files of a git tree and its submodules."""
    listing = Listing()
    tracked = set(_ls_files(top, "--cached"))
    others = [path for path in _ls_files(top, "--others") if path not in tracked]
    for path in _without_runs(others, listing):
        _add(top, path, listing)
    for path in tracked:
        _add(top, path, listing)
    listing.paths = sorted(set(listing.paths))
    return listing


def list_folder(top: Path) -> Listing:
    """List the files of a folder that is not in git."""
    listing = Listing()
    found = sorted(_walk(top))
    listing.paths = sorted(_without_runs(found, listing))
    return listing


def _add(top: Path, path: str, listing: Listing) -> None:
    """Add one line of `git ls-files`: a file, a link, or another tree inside this one."""
    path = path.rstrip("/")
    full = top / path
    try:
        mode = full.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return  # tracked, and removed here
    if not stat.S_ISDIR(mode):
        listing.paths.append(path)
        return
    if _git(full, "rev-parse", "--show-prefix") not in {b"\n", b""}:
        # A submodule that was never fetched is an empty folder.
        if not any(full.iterdir()):
            listing.notes.append(f"{path} is a submodule that is not there: git submodule update")
        return
    inner = list_git(full)
    listing.paths += [f"{path}/{one}" for one in inner.paths]
    listing.notes += [f"{path}: {note}" for note in inner.notes]


def _ls_files(top: Path, kind: str) -> list[str]:
    command = ["ls-files", "-z", kind, "--exclude-standard"]
    answer = _git(top, *command, loud=True)
    assert answer is not None
    return [os.fsdecode(path) for path in answer.split(b"\0") if path]


def _walk(top: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(top):
        here = Path(folder)
        keep = []
        for name in sorted(folders):
            if (here / name).is_symlink():
                files.append(name)
            elif name not in _EXCLUDED_FOLDERS and not (here / name / "pyvenv.cfg").exists():
                keep.append(name)
        folders[:] = keep
        for name in files:
            if not _EXCLUDED_FILES.fullmatch(name):
                yield (here / name).relative_to(top).as_posix()


def _without_runs(paths: Iterable[str], listing: Listing) -> list[str]:
    """Leave out environments, and runs and tokens: where a root of theseus lies in the project."""
    paths = list(paths)
    roots = {found[1] or "" for path in paths if (found := _RUN.fullmatch(path))}
    environments = {
        path.removesuffix("pyvenv.cfg") for path in paths if path.endswith("/pyvenv.cfg")
    }
    left_out = {
        f"{root}/{part}/".removeprefix("/"): True for root in roots for part in ("runs", "data")
    } | dict.fromkeys(environments, False)
    if not left_out:
        return paths
    starts = tuple(left_out)
    told = {start for path in paths for start in starts if path.startswith(start)}
    for start in sorted(told):
        what = "runs and data of theseus" if left_out[start] else "an environment"
        listing.notes.append(f"{start} is left out: {what}")
    return [path for path in paths if not path.startswith(starts)]


def _git(folder: Path, *command: str, loud: bool = False) -> bytes | None:
    # Without the optional lock a `git commit` of the user at the same moment is not disturbed.
    words = ["git", "--no-optional-locks", "-C", str(folder), *command]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_DIR")}
    try:
        answer = subprocess.run(
            words, capture_output=True, check=False, stdin=subprocess.DEVNULL, env=environ
        )
    except OSError as error:
        if loud:
            msg = f"git cannot be started: {error}"
            raise BundleError(msg) from error
        return None
    if answer.returncode == 0:
        return answer.stdout
    if loud or b"dubious ownership" in answer.stderr:
        told = answer.stderr.decode("utf-8", "replace").strip()
        msg = f"git cannot list the files of {folder}: {told}"
        raise BundleError(msg)
    return None
