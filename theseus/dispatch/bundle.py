"""What is sent to a host: the project as it stands, and theseus itself when nobody else brings it.

    bundle = gather(Path.cwd())
    bundle.write(Path("bundle.tar.gz"))

The name of a bundle is the digest of its files: the same content is the same bundle, on every host,
and is sent once. Unpacked, it holds `project/` and, when theseus is part of it, `own/theseus/`;
`wheels/` has its metadata for a project that depends on it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from theseus.dispatch import _listing
from theseus.dispatch._listing import BundleError, Commit
from theseus.dispatch._own_wheel import own_wheel
from theseus.dispatch.manifest import Manifest, read_manifest

__all__ = ["Bundle", "BundleError", "BundleFile", "gather"]

LIMIT = 256 * 2**20  # bytes; more is a mistake more often than a project
PROJECT, OWN, WHEELS = "project", "own", "wheels"
_SHOWN = 10


@dataclass(frozen=True)
class BundleFile:
    """One file of a bundle.

    Attributes
    ----------
    path
        Where it lies in the bundle.
    digest
        Of its content, or of where it points to.
    link
        Where a symbolic link points to; None for a file.
    source
        Where its content is; `content` when it was made here.
    """

    path: str
    digest: str
    size: int
    mode: int = 0o644
    link: str | None = None
    source: Path | None = field(default=None, compare=False)
    content: bytes | None = field(default=None, compare=False, repr=False)

    def read(self) -> bytes:
        """Return the content, refusing what is no longer the content that was looked at."""
        if self.content is not None:
            return self.content
        assert self.source is not None
        content = _read(self.source)
        if hashlib.sha256(content).hexdigest() != self.digest:
            msg = f"{self.source} changed while it was being sent; submit again when it is written"
            raise BundleError(msg)
        return content


@dataclass(frozen=True)
class Bundle:
    """What is sent, before it is sent.

    Attributes
    ----------
    digest
        The name of this content.
    size
        Bytes in all, before compression.
    top
        The folder that `project/` is a copy of; None when nothing of the user's is sent.
    folder
        Where the project lies below `project/`, where git's tree holds several: `""`, `libs/mine`.
    manifest
        What its `pyproject.toml` says.
    own
        Whether theseus itself is part of it.
    notes
        What was left out, and why.
    """

    digest: str
    files: tuple[BundleFile, ...]
    size: int
    top: Path | None
    folder: str
    manifest: Manifest
    own: bool
    commit: str | None = None
    dirty: bool = False
    version: str | None = None
    notes: tuple[str, ...] = ()

    def largest(self, count: int = _SHOWN) -> list[BundleFile]:
        """Return the largest files."""
        return sorted(self.files, key=lambda one: (-one.size, one.path))[:count]

    def write(self, target: Path) -> None:
        """Write the archive: the same bundle gives the same bytes."""
        with (
            target.open("wb") as file,
            # The fastest compression: what is sent here is text, and rarely much.
            gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for one in self.files:
                entry = tarfile.TarInfo(one.path)
                entry.mode = one.mode
                if one.link is not None:
                    entry.type, entry.linkname = tarfile.SYMTYPE, one.link
                    archive.addfile(entry)
                    continue
                content = one.read()
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))

    def __str__(self) -> str:
        where = "" if self.top is None else f" of {self.top}"
        commit = "" if self.commit is None else f", commit {self.commit[:10]}"
        changes = " with changes" if self.dirty else ""
        lines = [f"{len(self.files)} files, {size_text(self.size)}{where}{commit}{changes}"]
        if self.own:
            lines.append("with the theseus that is installed here")
        return "\n".join([*lines, *self.notes])


def gather(
    start: Path, *, limit: int = LIMIT, own: bool | None = None, private: Sequence[Path] = ()
) -> Bundle:
    """Return what is to be sent of the project around `start`.

    Parameters
    ----------
    start
        A folder of the project: where the notebook or the job's source lies.
    limit
        How many bytes are allowed in all.
    own
        Whether theseus itself is sent; None sends it when the project does not bring it.
    private
        Files and folders that stay here, wherever they lie: an inventory may hold secrets.

    Raises
    ------
    BundleError
        When it is too much, with the largest files; when a file cannot be read.
    """
    start = start.absolute()
    top = _listing.git_top(start)
    commit = Commit()
    listing = _listing.Listing()
    project = _project_folder(start, top)
    if top is not None:
        commit = _listing.commit_of(top)
        listing = _listing.list_git(top)
    elif project is not None or not _listing.is_home(start):
        top = project or start
        listing = _listing.list_folder(top)
    else:
        listing.notes.append(
            f"nothing of {start} is sent: a home folder is no project (make a folder for yours)"
        )
    notes = list(listing.notes)
    paths = listing.paths if top is None else _without(private, top, listing.paths, notes)
    files = list(_project_files(top, paths, notes, limit)) if top is not None else []
    folder = "" if top is None or project is None else _relative(project, top)
    manifest = read_manifest(project)
    if own is None:
        own = not manifest.brings_theseus
    if own:
        files += own_files()
        if manifest.needs_theseus and (wheel := own_wheel()) is not None:
            name, content = wheel
            path = f"{WHEELS}/{name}"
            files.append(BundleFile(path, _digest(content), len(content), content=content))
    _check_size(files, limit, top)
    return _bundle(files, top, folder, manifest, own, commit, notes)


def _bundle(
    files: list[BundleFile],
    top: Path | None,
    folder: str,
    manifest: Manifest,
    own: bool,
    commit: Commit,
    notes: list[str],
) -> Bundle:
    files.sort(key=lambda one: os.fsencode(one.path))
    facts = [(os.fsencode(one.path).hex(), one.digest, one.mode, one.link is None) for one in files]
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]
    size = sum(one.size for one in files)
    return Bundle(
        digest, tuple(files), size, top, folder, manifest, own,
        commit.digest, commit.dirty, commit.version, tuple(notes),
    )  # fmt: skip


def _project_folder(start: Path, top: Path | None) -> Path | None:
    """Return the folder with the nearest `pyproject.toml`, inside the git tree if there is one."""
    for folder in (start, *start.parents):
        if top is None and _listing.is_home(folder):
            return None
        if (folder / "pyproject.toml").is_file():
            return folder
        if top is not None and folder.resolve() == top.resolve():
            return top
    return None


def _relative(project: Path, top: Path) -> str:
    relative = project.resolve().relative_to(top.resolve()).as_posix()
    return "" if relative == "." else relative


def _without(private: Sequence[Path], top: Path, paths: list[str], notes: list[str]) -> list[str]:
    """Return the paths that neither are nor lie in something private, also by way of a link."""
    kept_back = [one.resolve() for one in private]
    allowed = []
    for path in paths:
        full = (top / path).resolve()
        if any(full.is_relative_to(one) for one in kept_back):
            notes.append(f"{path} is left out: what theseus knows of hosts and runs stays here")
        else:
            allowed.append(path)
    return allowed


def _project_files(
    top: Path, paths: list[str], notes: list[str], limit: int
) -> Iterator[BundleFile]:
    known = set(paths)
    folders = {parent.as_posix() for path in paths for parent in PurePosixPath(path).parents}
    too_much = limit
    for path in paths:
        full = top / path
        name = f"{PROJECT}/{path}"
        try:
            mode = full.lstat().st_mode
        except FileNotFoundError:  # removed since it was listed
            continue
        if stat.S_ISLNK(mode):
            inside = _inside(full, path, top, known, folders)
            if inside is not None:
                yield BundleFile(name, _digest(os.fsencode(inside)), 0, 0o777, link=inside)
                continue
            if not full.is_file():
                notes.append(f"{path} is left out: it points to {full.readlink()}, outside")
                continue
            mode = full.stat().st_mode
        elif not stat.S_ISREG(mode):
            notes.append(f"{path} is left out: it is neither a file nor a link")
            continue
        size = full.stat().st_size
        too_much -= size
        if too_much < 0:  # refused below; what it holds does not matter
            yield BundleFile(name, "", size, source=full)
            continue
        content = _read(full)
        executable = 0o755 if mode & stat.S_IXUSR else 0o644
        yield BundleFile(name, _digest(content), len(content), executable, source=full)


def _inside(full: Path, path: str, top: Path, known: set[str], folders: set[str]) -> str | None:
    """Return where a link points to, relative to itself, when that is part of the bundle."""
    target = Path(os.path.normpath(full.parent / full.readlink()))
    try:
        within = target.relative_to(top).as_posix()
    except ValueError:
        return None
    if within not in known and within not in folders and target.exists():
        return None  # there, but ignored: only its content could be sent
    return os.path.relpath(within, os.path.dirname(path) or ".")  # noqa: PTH120 - text, not a file


def own_files() -> list[BundleFile]:
    """Return the source of the theseus that runs here."""
    package = Path(__file__).resolve().parents[1]
    found = []
    for file in sorted(package.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".pyc":
            content = _read(file)
            name = f"{OWN}/theseus/{file.relative_to(package).as_posix()}"
            found.append(BundleFile(name, _digest(content), len(content), source=file))
    return found


def _check_size(files: list[BundleFile], limit: int, top: Path | None) -> None:
    size = sum(one.size for one in files)
    if size <= limit:
        return
    rows = sorted(files, key=lambda one: (-one.size, one.path))[:_SHOWN]
    width = max(len(size_text(one.size)) for one in rows)
    table = "\n".join(
        f"  {size_text(one.size):>{width}}  {one.path.partition('/')[2]}" for one in rows
    )
    msg = (
        f"{top} holds {size_text(size)} in {len(files)} files, more than the {size_text(limit)} "
        f"that are sent without a word. The largest:\n{table}\n"
        "List what the run does not need in .gitignore, or allow more with --limit."
    )
    raise BundleError(msg)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        msg = f"{path} cannot be read, so it cannot be sent: {error.strerror or error}"
        raise BundleError(msg) from error


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def size_text(size: float) -> str:
    """Return a number of bytes as people read it: `3.1 MB`."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
