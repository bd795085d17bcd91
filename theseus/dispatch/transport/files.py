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

from theseus.dispatch.transport.base import Answer, Progress, RemoteFileError, TransportError

if TYPE_CHECKING:
    from theseus.dispatch.transport.session import Session
    from theseus.dispatch.transport.shell import Shell

_BLOCK = 1 << 18
_WORTH = 1 << 20  # bytes of a file that is not sent again from its beginning
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

# $1 target, $2 temporary name beside it, $3 mode, $4 digest, $5 size, $6 what the temporary names of
# the same content begin with; empty when it is not worth while to go on from what has arrived.
# Whoever writes a temporary file has it locked: one that is not is what a cut line has left.
_PUT = (
    SHA256
    + r"""
theseus_size() { theseus_n=$(wc -c <"$1") && echo $((theseus_n)); }
theseus_there() {
  [ -f "$1" ] && [ "$(theseus_size "$1")" = "$3" ] && [ "$(theseus_sha256 <"$1")" = "$2" ]
} 2>/dev/null
theseus_ours() { [ -f "$1" ] && [ ! -L "$1" ] && [ -O "$1" ]; }
# Do $3… with the file $1 while we hold its lock, after at most $2 seconds of waiting for it.
theseus_locked() {
  command -v flock && (flock -w "$2" 9 && shift 2 && "$@") 9<"$1"
} >/dev/null 2>&1
if [ -d "$1" ]; then echo 'is a folder' >&2; exit 3; fi
if theseus_there "$1" "$4" "$5" && chmod "$3" "$1" 2>/dev/null; then echo have; exit; fi
mkdir -p "${1%/*}/" || exit
umask 077
trap '' PIPE # when the connection is gone, saying so must not end us before we have cleaned up
[ -n "$6" ] || trap 'rm -f "$2"' EXIT
while :; do # until the file is ours: who tidies up may take it away before it is locked
  exec 8>>"$2" || exit
  ! command -v flock >/dev/null 2>&1 || flock 8
  [ ! -e "$2" ] || break
done
[ -z "$6" ] || for theseus_other in "$6"*; do
  [ "$theseus_other" != "$2" ] && theseus_ours "$theseus_other" || continue
  # Of what somebody still writes, the beginning is as good; it may end, and be gone, at any moment.
  theseus_do=true
  ! theseus_locked "$theseus_other" 3 true || theseus_do='rm -f'
  theseus_n=$(theseus_size "$theseus_other" 2>/dev/null) || continue
  [ "$theseus_n" -gt "$(theseus_size "$2")" ] && [ "$theseus_n" -le "$5" ] || continue
  : >"$2"
  cat "$theseus_other" >&8 2>/dev/null || continue
  theseus_locked "$theseus_other" 0 $theseus_do "$theseus_other"
done
echo "send $(theseus_size "$2")"
cat >&8 || { theseus_n=$?; rm -f "$2"; exit "$theseus_n"; }
theseus_n=$(theseus_size "$2") || exit
if [ "$theseus_n" -lt "$5" ]; then
  [ "$theseus_n" -gt 0 ] || rm -f "$2"
  echo "only $theseus_n of $5 bytes arrived" >&2
  exit 5
fi
theseus_got=$(theseus_sha256 <"$2")
if [ "$theseus_got" != "$4" ]; then
  rm -f "$2"
  echo "has the digest '$theseus_got' after sending, not '$4'" >&2
  exit 4
fi
chmod "$3" "$2" && mv -f "$2" "$1" || exit
[ -z "$6" ] || for theseus_other in "$6"*; do
  ! theseus_ours "$theseus_other" || theseus_locked "$theseus_other" 0 rm -f "$theseus_other"
done
exit 0
"""
)
_DIFFERS = 4  # the status of `_PUT` when the content is not what it should be

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
    """Write a file on the host; see `Transport.put`.

    A connection that is lost on the way is opened again, as long as that brings something; a large
    file goes on from what has arrived, also when it is sent again another day.
    """
    with _opened(source) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.seek(0, io.SEEK_END)
        begins = f"{target}.partial-{digest[:16]}-" if size >= _WORTH else ""
        sending = _Sending(file, size, progress)
        left, mended = _FRUITLESS, False
        while True:
            before = sending.there
            # Another name each time: the writer of the last attempt may still be at work.
            partial = f"{begins or f'{target}.partial-'}{secrets.token_hex(8)}"
            arguments = (target, partial, f"{mode:o}", digest, str(size), begins)
            try:
                answer = _put(shell, sending, arguments)
            except TransportError as error:
                left = _FRUITLESS if sending.there > before else left - 1
                if error.kind not in {"lost", "timeout"} or not left or not begins:
                    raise
                if error.kind == "timeout":
                    shell.suspect()
                time.sleep(0.2)  # what has just broken may not know it yet
                continue
            if answer.status == 0:
                return
            # What lay there may have been spoilt by a disk that was full: once more, from nothing.
            if answer.status != _DIFFERS or not sending.began or mended:
                said = _said(answer.err)
                raise RemoteFileError(shell.name, target, f"cannot be written: {said}")
            mended = True


class _Sending:
    """A file on its way: how much of it was there when sending began, and how much is now."""

    def __init__(
        self, file: io.BytesIO | io.BufferedReader, size: int, progress: Progress | None
    ) -> None:
        self.file, self.size, self.progress = file, size, progress
        self.began = self.there = 0

    def send(self, session: Session, began: int) -> None:
        """Send what is missing."""
        self.began, self.there = began, max(self.there, began)
        self.file.seek(began)
        sent = began
        self.tell(sent)
        while block := self.file.read(_BLOCK):
            session.send(block)
            sent += len(block)
            self.tell(sent)

    def tell(self, done: int) -> None:
        """Say how much is there."""
        if self.progress is not None:
            self.progress(done, self.size)


def _put(shell: Shell, sending: _Sending, arguments: tuple[str, ...]) -> Answer:
    patience = _STALL + sending.size / _DIGEST_RATE
    with shell.session(_PUT, arguments, time.monotonic() + patience) as session:
        reply = session.line()
        if reply.startswith(b"send ") and reply[5:].isdigit():
            sending.send(session, int(reply[5:]))
            session.set_deadline(time.monotonic() + patience)
        elif reply == b"have":
            sending.tell(sending.size)
        session.end_input()
        return session.finish()


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
