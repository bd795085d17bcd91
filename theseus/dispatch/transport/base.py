"""What all transports have in common: the values that they exchange, and what can go wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from theseus.errors import UserError

Progress = Callable[[int, "int | None"], None]  # bytes so far, bytes in all

Kind = Literal["unreachable", "host_key", "authentication", "timeout", "lost", "protocol"]


@dataclass(frozen=True)
class Answer:
    """What a program on a host answered: its exit status and exactly what it wrote.

    Attributes
    ----------
    status
        The exit status; it is the caller's to judge.
    out, err
        The bytes of the program alone: what start-up files print is not among them.
    """

    status: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """The output as text; what is not UTF-8 is replaced."""
        return self.out.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """What the program wrote to its error stream, as text without blank ends."""
        return self.err.decode("utf-8", "replace").strip()


class TransportError(UserError):
    """A host did not answer, so nothing is known of what was asked.

    Attributes
    ----------
    host
        The host's name.
    kind
        What went wrong: `unreachable`, `host_key`, `authentication` before there was a connection;
        `timeout` when the answer took too long; `lost` when the connection ended before the answer
        was complete; `protocol` when something else than an answer came.
    """

    def __init__(self, host: str, kind: Kind, message: str) -> None:
        super().__init__(f"host '{host}': {message}")
        self.host = host
        self.kind: Kind = kind


class RemoteFileError(UserError):
    """A file on a host cannot be written, read or named; the connection itself is fine.

    Attributes
    ----------
    host
        The host's name.
    path
        The path on the host.
    """

    def __init__(self, host: str, path: str, message: str) -> None:
        super().__init__(f"host '{host}': '{path}' {message}")
        self.host = host
        self.path = path


class ByteStream(Protocol):
    """What a program on a host writes, as it is written."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield chunks until the program ends; TransportError(kind="lost") when it is cut."""

    def read(self, timeout: float | None = None) -> bytes | None:
        """Return the next chunk, `b""` at the end, None when nothing came in time."""

    def close(self) -> None:
        """End the program, if it still runs."""

    @property
    def answer(self) -> Answer | None:
        """How the program ended (its output left out), or None before it has."""


@runtime_checkable
class Transport(Protocol):
    """A shell and files on one host; thread-safe."""

    @property
    def name(self) -> str:
        """The host's name, for messages."""

    def run(
        self,
        program: str,
        *arguments: str,
        input: bytes = b"",  # noqa: A002 - the word that everybody knows for it
        timeout: float = 30.0,
    ) -> Answer:
        """Run a POSIX sh program with `$1` … and return what it answered.

        Parameters
        ----------
        program
            The text of the program: a constant. Values go in as arguments.
        arguments
            `$1`, `$2`, …: any text without NUL.
        input
            What the program reads from its standard input.
        timeout
            Seconds until the answer must be complete, a connection's opening included.

        Raises
        ------
        TransportError
            When there is no answer; never for an exit status.
        """

    def stream(self, program: str, *arguments: str) -> ByteStream:
        """Start a program and return what it writes, as it comes."""

    def put(
        self,
        source: Path | bytes,
        target: str,
        *,
        mode: int = 0o600,
        progress: Progress | None = None,
    ) -> None:
        """Write a file on the host: whole and checked, or not at all."""

    def get(self, source: str, target: Path, *, progress: Progress | None = None) -> None:
        """Fetch a file from the host: whole and checked, or not at all; goes on where it was."""

    def resolve(self, path: str) -> str:
        """Return the absolute path on the host for one with `~`, `~user`, `$HOME`, `$SCRATCH`."""

    def close(self) -> None:
        """Close the connection; the next use opens another."""


class HostLike(Protocol):
    """What a transport needs to know of a host; an inventory's `Host` has it."""

    @property
    def name(self) -> str:
        """The host's name in the inventory."""

    @property
    def ssh(self) -> str | None:
        """What `ssh` is called with; None for this machine."""

    @property
    def transport(self) -> Literal["auto", "paramiko", "openssh", "local"]:
        """How the host is reached."""
