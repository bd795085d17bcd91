"""The one implementation of a transport: a remote `/bin/sh` over any connection that carries it.

How a connection is made (paramiko, the `ssh` program, or no network at all) is the business of an
opener; opening, keeping, sharing and renewing it is here.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from theseus.dispatch.transport import files, paths
from theseus.dispatch.transport.base import Answer, Progress, TransportError
from theseus.dispatch.transport.process import Process
from theseus.dispatch.transport.session import START_TIMEOUT, NotStarted, Session, Stream

OPEN_TIMEOUT = 10.0  # for a channel on a connection that stands
_MOST_CONNECTIONS = 4


class Broken(Exception):
    """A connection that stood carries nothing any more."""


class NoRoom(Exception):
    """A connection that stands carries no more programs at the same time."""


class Connection(Protocol):
    """What carries programs to a host."""

    @property
    def alive(self) -> bool:
        """Whether it stands, as far as can be told without asking."""

    def start(self, timeout: float) -> Process:
        """Start a `/bin/sh` that reads its input; Broken or NoRoom when that cannot be."""

    def close(self) -> None:
        """End it and everything on it, quickly."""


Opener = Callable[[float], Connection]  # given the seconds that it may take


class Shell:
    """A transport over one shared connection, opened on first use and again after a loss."""

    def __init__(self, name: str, opener: Opener) -> None:
        self._name = name
        self._opener = opener
        self._owner = os.getpid()
        self._opening = threading.Lock()
        self._connections: list[Connection] = []
        self._retired: list[Connection] = []  # no use for new programs, but some still run there
        self._failures = 0
        self._failure: TransportError | None = None
        self._suspect = False
        self._resolved: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The host's name, for messages."""
        return self._name

    @property
    def connected(self) -> bool:
        """Whether a connection stands: the host has let us in, however long it takes to answer."""
        return any(connection.alive for connection in self._connections)

    def __repr__(self) -> str:
        return f"<transport to {self._name!r}, {len(self._connections)} connection(s)>"

    # Programs

    def session(self, program: str, arguments: tuple[str, ...], deadline: float) -> Session:
        """Start a program for a conversation, and wait until it runs."""
        pause = 0.02
        while True:
            start = min(deadline, time.monotonic() + START_TIMEOUT)
            connection, process = self._start(start)
            try:
                session = Session(self._name, process, program, arguments, start)
                session.begin()
            except NotStarted:
                # A master connection that ends is in the way for a moment.
                process.close(done=False)
                self._drop(connection)
                if _left(start) < pause:
                    raise TransportError(self._name, "lost", "the connection has broken") from None
                time.sleep(pause)
                pause *= 2
                continue
            except BaseException:
                process.close(done=False)
                raise
            session.set_deadline(deadline)
            return session

    def run(
        self,
        program: str,
        *arguments: str,
        input: bytes = b"",  # noqa: A002 - the word that everybody knows for it
        timeout: float = 30.0,
    ) -> Answer:
        """Run a POSIX sh program with `$1` … and return what it answered."""
        try:
            with self.session(program, arguments, time.monotonic() + timeout) as session:
                if input:
                    session.feed(input)
                else:
                    session.end_input()
                return session.finish()
        except TransportError as error:
            if error.kind != "timeout":
                raise
            self._suspect = True
            message = f"did not answer within {timeout:g} seconds"
            raise TransportError(self._name, "timeout", message) from error

    def stream(self, program: str, *arguments: str) -> Stream:
        """Start a program and return what it writes, as it comes."""
        session = self.session(program, arguments, time.monotonic() + START_TIMEOUT)
        session.end_input()
        return Stream(session)

    # Files

    def put(
        self,
        source: Path | bytes,
        target: str,
        *,
        mode: int = 0o600,
        progress: Progress | None = None,
    ) -> None:
        """Write a file on the host: whole and checked, or not at all."""
        files.put(self, source, self.resolve(target), mode=mode, progress=progress)

    def get(self, source: str, target: Path, *, progress: Progress | None = None) -> None:
        """Fetch a file from the host: whole and checked, or not at all; goes on where it was."""
        files.get(self, self.resolve(source), target, progress=progress)

    def resolve(self, path: str) -> str:
        """Return the absolute path on the host for one with `~`, `~user`, `$HOME`, `$SCRATCH`."""
        found = self._resolved.get(path)
        if found is None:
            found = self._resolved[path] = paths.resolve(self, path)
        return found

    # The connection

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        connections = self._connections + self._retired
        self._connections, self._retired = [], []
        if self._owner != os.getpid():
            return  # they are our parent's: a word from us would end its work
        for connection in connections:
            with contextlib.suppress(Exception):
                connection.close()

    def suspect(self) -> None:
        """Say that the connection may be dead although nothing has said so."""
        self._suspect = True

    def _start(self, deadline: float) -> tuple[Connection, Process]:
        if self._owner != os.getpid():
            message = (
                f"the connection belongs to process {self._owner}, of which this is a fork: "
                "call connect() here to have one of your own"
            )
            raise TransportError(self._name, "lost", message)
        for _ in range(2 + _MOST_CONNECTIONS):
            connections = self._open_connections(deadline)
            for connection in connections:
                limit = min(_left(deadline), 5.0 if self._suspect else OPEN_TIMEOUT)
                try:
                    process = connection.start(limit)
                except NoRoom:
                    continue
                except Broken:
                    self._drop(connection)
                    break
                self._suspect = False
                return connection, process
            else:
                self._open_another(deadline, beside=len(connections))
        raise TransportError(self._name, "lost", "the connection broke as often as it was opened")

    def _drop(self, connection: Connection) -> None:
        with contextlib.suppress(ValueError):
            self._connections.remove(connection)
        if connection.alive:
            self._retired.append(connection)
            return
        with contextlib.suppress(Exception):
            connection.close()

    def _open_connections(self, deadline: float) -> list[Connection]:
        """Return the connections that stand, at least one."""
        failures = self._failures
        standing = self._standing()
        if standing:
            return standing
        with self._alone(deadline):
            standing = self._standing()
            if standing:
                return standing
            if self._failures != failures and self._failure is not None:
                # Another thread has just tried, while this one waited for it.
                raise self._failure.with_traceback(None)
            return [self._open(deadline)]

    def _open_another(self, deadline: float, *, beside: int) -> None:
        with self._alone(deadline):
            standing = len(self._standing())
            if standing > beside:
                return  # another thread has opened one, while this one waited
            if standing >= _MOST_CONNECTIONS:
                message = (
                    f"{_MOST_CONNECTIONS} connections carry no more programs at the same time; "
                    "close a log that is being followed, or raise MaxSessions in its sshd_config"
                )
                raise TransportError(self._name, "unreachable", message)
            self._open(deadline)

    def _standing(self) -> list[Connection]:
        for connection in list(self._connections):
            if not connection.alive:
                self._drop(connection)
        return list(self._connections)

    def _open(self, deadline: float) -> Connection:
        try:
            connection = self._opener(max(0.1, _left(deadline)))
        except TransportError as error:
            self._failures += 1
            self._failure = error
            raise
        self._connections.append(connection)
        return connection

    @contextlib.contextmanager
    def _alone(self, deadline: float) -> Iterator[None]:
        if not self._opening.acquire(timeout=_left(deadline)):
            raise TransportError(
                self._name, "timeout", "the connection could not be opened in time"
            )
        try:
            yield
        finally:
            self._opening.release()


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
