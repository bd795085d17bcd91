"""Whole files to and from a host: checked by digest, renamed into place, never half there.

They travel over the same shell as everything else. SFTP would be a second protocol with its own
idea of `~`, would need a subsystem that not every host has, and breaks when a start-up file prints.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from theseus.dispatch.transport.base import Progress, RemoteFileError, TransportError

if TYPE_CHECKING:
    from theseus.dispatch.transport.session import Session
    from theseus.dispatch.transport.shell import Shell

_BLOCK = 1 << 18
_STALL = 60.0  # seconds without a byte
_DIGEST_RATE = 20e6  # bytes per second that the slowest disk reads, to wait for a digest
_FRUITLESS = 3  # attempts that bring nothing, one after the other

SHA256 = r"""
theseus_sha256() {
  if command -v sha256sum >/dev/null 2>&1; then sha256sum
  elif command -v shasum >/dev/null 2>&1; then shasum -a 256
  elif command -v openssl >/dev/null 2>&1; then openssl dgst -sha256 -r
  else echo 'none of sha256sum, shasum and openssl is installed there' >&2; return 127
  fi | cut -c 1-64
}
"""

# $1 target, $2 temporary name beside it, $3 mode, $4 digest, $5 size
_PUT = (
    SHA256
    + r"""
if [ -d "$1" ]; then echo 'is a folder' >&2; exit 3; fi
if [ -f "$1" ] && [ "$(wc -c <"$1")" -eq "$5" ] && [ "$(theseus_sha256 <"$1")" = "$4" ]; then
  chmod "$3" "$1" && echo have
  exit
fi
mkdir -p "${1%/*}/" || exit
umask 077
trap 'rm -f "$2"' EXIT
trap '' PIPE # when the connection is gone, saying so must not end us before we have cleaned up
: >"$2" || exit
echo send
cat >"$2" || exit
theseus_got=$(theseus_sha256 <"$2")
if [ "$theseus_got" != "$4" ]; then
  echo "has the digest '$theseus_got' after sending, not '$4'" >&2
  exit 4
fi
chmod "$3" "$2" && mv -f "$2" "$1"
"""
)

# $1 source. Its size is taken once: a file that grows is fetched as it was.
_GET = (
    SHA256
    + r"""
if [ -d "$1" ]; then echo 'is a folder' >&2; exit 3; fi
if ! [ -f "$1" ]; then echo 'does not exist' >&2; exit 2; fi
theseus_size=$(wc -c <"$1") || exit
theseus_size=$((theseus_size))
theseus_digest=$(head -c "$theseus_size" <"$1" | theseus_sha256)
[ -n "$theseus_digest" ] || exit 4
echo "$theseus_size $theseus_digest"
read -r theseus_start || exit
tail -c "+$((theseus_start + 1))" <"$1" | head -c "$((theseus_size - theseus_start))"
"""
)


def put(
    shell: Shell, source: Path | bytes, target: str, *, mode: int, progress: Progress | None
) -> None:
    """Write a file on the host; see `Transport.put`."""
    with _opened(source) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.seek(0, io.SEEK_END)
        partial = f"{target}.partial-{secrets.token_hex(8)}"
        arguments = (target, partial, f"{mode:o}", digest, str(size))
        patience = _STALL + size / _DIGEST_RATE
        with shell.session(_PUT, arguments, time.monotonic() + patience) as session:
            reply = session.line()
            if reply == b"send":
                file.seek(0)
                _send(session, file, size, progress)
                session.set_deadline(time.monotonic() + patience)
            session.end_input()
            answer = session.finish()
        if reply not in {b"have", b"send"} or answer.status != 0:
            raise RemoteFileError(shell.name, target, f"cannot be written: {_said(answer.err)}")
        if reply == b"have" and progress is not None:
            progress(size, size)


def _send(
    session: Session, file: io.BytesIO | io.BufferedReader, size: int, progress: Progress | None
) -> None:
    sent = 0
    if progress is not None:
        progress(0, size)
    while block := file.read(_BLOCK):
        session.send(block)
        sent += len(block)
        if progress is not None:
            progress(sent, size)


def get(shell: Shell, source: str, target: Path, *, progress: Progress | None) -> None:
    """Fetch a file from the host; see `Transport.get`.

    A connection that is lost on the way is opened again, as long as that brings something.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    left = _FRUITLESS
    while True:
        before = _partial_bytes(target)
        try:
            _get(shell, source, target, progress)
        except TransportError as error:
            left = _FRUITLESS if _partial_bytes(target) > before else left - 1
            if error.kind not in {"lost", "timeout"} or not left:
                raise
            time.sleep(0.2)  # what has just broken may not know it yet
        else:
            return


def _get(shell: Shell, source: str, target: Path, progress: Progress | None) -> None:
    with shell.session(_GET, (source,), time.monotonic() + 3600.0) as session:
        head = session.line().split()
        if len(head) != 2 or not head[0].isdigit():
            answer = session.finish()
            raise RemoteFileError(shell.name, source, f"cannot be fetched: {_said(answer.err)}")
        size, digest = int(head[0]), head[1].decode("ascii", "replace")
        # The name of the partial file says of which content it is a part.
        partial = target.with_name(f".{target.name}.{digest[:16]}.partial")
        for other in _partials(target):
            if other != partial:
                other.unlink(missing_ok=True)
        have = partial.stat().st_size if partial.exists() else 0
        if have > size:
            partial.unlink()
            have = 0
        session.send(b"%d\n" % have)
        session.end_input()
        if progress is not None:
            progress(have, size)
        with partial.open("ab") as file:
            while True:
                block = session.read(_STALL)
                if block is None:
                    message = f"sent nothing for {_STALL:.0f} seconds"
                    raise TransportError(shell.name, "timeout", message)
                if not block:
                    break
                file.write(block)
                file.flush()
                have += len(block)
                if progress is not None:
                    progress(have, size)
    with partial.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != digest:
        partial.unlink()
        message = "changed while it was fetched; fetch it again when it is written"
        raise RemoteFileError(shell.name, source, message)
    partial.replace(target)


def _partials(target: Path) -> list[Path]:
    start, end = f".{target.name}.", ".partial"
    return [
        path
        for path in target.parent.iterdir()
        if path.name.startswith(start)
        and path.name.endswith(end)
        and len(path.name) == len(start) + 16 + len(end)
    ]


def _partial_bytes(target: Path) -> int:
    return sum(path.stat().st_size for path in _partials(target))


@contextlib.contextmanager
def _opened(source: Path | bytes) -> Iterator[io.BytesIO | io.BufferedReader]:
    if isinstance(source, bytes):
        yield io.BytesIO(source)
    else:
        with source.open("rb") as file:
            yield file


def _said(errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "no reason was given"
