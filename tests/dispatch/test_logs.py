"""Following logs: every byte once and in order, whatever happens to files, lines and readers."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.services.sshd import BadLine, Host, SshWorld
from theseus.dispatch import logs, transport
from theseus.dispatch._log_copy import LogCopy
from theseus.dispatch._log_program import Notes
from theseus.dispatch.logs import (
    LogText,
    Notice,
    Piece,
    follow,
    merged,
    offset_of_last_lines,
)
from theseus.dispatch.transport import Transport, TransportError, connect
from theseus.errors import UserError


class Follower:
    """Follows in a thread of its own and keeps what it was given."""

    def __init__(self, there: Transport, files: dict[str, Path], folder: Path, **options: object):
        self.data = {name: bytearray() for name in files}
        self.notices: list[Notice] = []
        self.error: BaseException | None = None
        self.stop, self.over = threading.Event(), threading.Event()
        paths = {name: str(path) for name, path in files.items()}
        options = {"ended": self.over.is_set, "stop": self.stop, **options}
        self._events = follow(there, paths, folder, **options)  # type: ignore[arg-type]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for event in self._events:
                if isinstance(event, Piece):
                    self.data[event.name] += event.data
                else:
                    self.notices.append(event)
        except TransportError as error:
            self.error = error

    @property
    def kinds(self) -> list[str]:
        return [notice.kind for notice in self.notices]

    def until(self, holds: Callable[[], bool], seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not holds() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert holds(), (self.kinds, {name: data[-200:] for name, data in self.data.items()})

    def end(self) -> None:
        """Say that nothing more will be written, and wait until everything was read."""
        self.over.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def give_up(self) -> None:
        self.stop.set()
        self._thread.join(10)
        assert not self._thread.is_alive()


@pytest.fixture
def here() -> Iterator[Transport]:
    yield connect(Host("here", None, "local"))
    transport.close_all()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "a run's folder"
    folder.mkdir()
    return folder / "0.log"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_what_is_there_comes_first_and_then_what_is_added(
    here: Transport, log: Path, tmp_path: Path
) -> None:
    append(log, b"one\n")
    follower = Follower(here, {"0": log}, tmp_path / "copy")
    follower.until(lambda: follower.data["0"] == b"one\n")
    append(log, b"two\xff\0\r")
    follower.until(lambda: follower.data["0"] == b"one\ntwo\xff\0\r")
    append(log, b"\nlast, without an end")
    follower.end()
    assert follower.data["0"] == log.read_bytes()
    assert (tmp_path / "copy/0.log").read_bytes() == log.read_bytes()
    assert follower.notices == []


def test_a_log_that_does_not_exist_yet_is_waited_for(
    here: Transport, log: Path, tmp_path: Path
) -> None:
    follower = Follower(here, {"0": log}, tmp_path / "copy")
    follower.until(lambda: follower.kinds == ["waiting"])
    assert f"no log yet: {log} on host 'here'" in follower.notices[0].text
    append(log, b"late\n")
    follower.until(lambda: follower.data["0"] == b"late\n")
    follower.end()


def test_a_log_that_never_comes_ends_with_the_run(
    here: Transport, log: Path, tmp_path: Path
) -> None:
    follower = Follower(here, {"0": log}, tmp_path / "copy")
    follower.until(lambda: follower.kinds == ["waiting"])
    follower.end()
    assert follower.data == {"0": bytearray()}


def test_several_logs_are_followed_at_once(here: Transport, log: Path, tmp_path: Path) -> None:
    files = {str(rank): log.with_name(f"{rank}.log") for rank in range(4)}
    follower = Follower(here, files, tmp_path / "copy")
    for number in range(60):
        append(files[str(number % 3)], b"line %d\n" % number)
        time.sleep(0.01)
    append(files["3"], os.urandom(6 << 20))
    follower.end()
    assert follower.data == {name: path.read_bytes() for name, path in files.items()}


@pytest.mark.parametrize("suffix", [".1", "-20301201"])
def test_a_rotated_log_loses_nothing(
    here: Transport, log: Path, tmp_path: Path, suffix: str
) -> None:
    follower = Follower(here, {"0": log}, tmp_path / "copy")
    append(log, b"before\n")
    follower.until(lambda: follower.data["0"] == b"before\n")
    append(log, b"at the last moment\n")
    log.rename(log.with_name(f"0.log{suffix}"))
    append(log, b"after\n")
    follower.end()
    assert follower.data["0"] == b"before\nat the last moment\nafter\n"
    assert follower.kinds.count("rotated") == 1


def test_several_rotations_while_nobody_looked_lose_nothing(
    here: Transport, log: Path, tmp_path: Path
) -> None:
    append(log, b"first\n")
    list(follow(here, {"0": str(log)}, tmp_path / "copy", once=True))
    append(log, b"rest of the first\n")
    for number, text in ((2, b"second\n"), (1, b"third\n")):
        log.rename(log.with_name(f"0.log.{number}"))
        append(log, text)
        os.utime(log.with_name(f"0.log.{number}"), (1000 - number, 1000 - number))
    list(follow(here, {"0": str(log)}, tmp_path / "copy", once=True))
    assert (tmp_path / "copy/0.log").read_bytes() == b"first\nrest of the first\nsecond\nthird\n"


def test_a_rotated_log_that_is_gone_is_a_gap_that_is_told(
    here: Transport, log: Path, tmp_path: Path
) -> None:
    append(log, b"first\n")
    list(follow(here, {"0": str(log)}, tmp_path / "copy", once=True))
    log.rename(log.with_name("kept"))  # so that its inode is not used again
    append(log, b"new\n")
    events = list(follow(here, {"0": str(log)}, tmp_path / "copy", once=True))
    assert [event.kind for event in events if isinstance(event, Notice)] == ["gap", "rotated"]
    assert (tmp_path / "copy/0.log").read_bytes() == b"first\nnew\n"


def test_a_log_that_was_emptied_is_read_from_its_beginning(
    here: Transport, log: Path, tmp_path: Path
) -> None:
    follower = Follower(here, {"0": log}, tmp_path / "copy")
    append(log, b"a long first line\n")
    follower.until(lambda: bool(follower.data["0"]))
    os.truncate(log, 0)
    append(log, b"short\n")
    follower.until(lambda: follower.data["0"] == b"a long first line\nshort\n")
    follower.end()
    assert follower.kinds in (["waiting", "cut"], ["cut"])


def test_a_log_that_was_emptied_and_has_outgrown_what_was_read_is_noticed(
    here: Transport, log: Path, tmp_path: Path
) -> None:
    append(log, b"as it was\n")
    list(follow(here, {"0": str(log)}, tmp_path / "copy", once=True))
    os.truncate(log, 0)
    append(log, b"something else that is longer\n")
    events = list(follow(here, {"0": str(log)}, tmp_path / "copy", once=True))
    assert [event.kind for event in events if isinstance(event, Notice)] == ["cut"]
    expected = b"as it was\nsomething else that is longer\n"
    assert (tmp_path / "copy/0.log").read_bytes() == expected


def test_the_same_content_under_another_inode_is_not_read_twice(
    here: Transport, log: Path, tmp_path: Path
) -> None:
    append(log, b"as it was\n")
    list(follow(here, {"0": str(log)}, tmp_path / "copy", once=True))
    moved = log.with_name("moved")  # a network file system that gives another number, in effect
    moved.write_bytes(log.read_bytes() + b"and more\n")
    moved.rename(log)
    events = list(follow(here, {"0": str(log)}, tmp_path / "copy", once=True))
    assert [event.data for event in events if isinstance(event, Piece)][-1] == b"and more\n"
    assert (tmp_path / "copy/0.log").read_bytes() == b"as it was\nand more\n"


def test_another_process_goes_on_where_one_was_killed(
    here: Transport, log: Path, tmp_path: Path
) -> None:
    code = (
        "import sys; from tests.services.sshd import Host\n"
        "from theseus.dispatch.logs import follow\n"
        "from theseus.dispatch.transport import connect\n"
        "from pathlib import Path\n"
        "there = connect(Host('here', None, 'local'))\n"
        "for event in follow(there, {'0': sys.argv[1]}, Path(sys.argv[2])): print(flush=True)\n"
    )
    append(log, os.urandom(50_000))
    command = [sys.executable, "-c", code, str(log), str(tmp_path / "copy")]
    for _ in range(3):
        reader = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert reader.stdout is not None
        reader.stdout.readline()
        append(log, os.urandom(50_000))
        reader.kill()
        reader.wait()
        reader.stdout.close()
    list(follow(here, {"0": str(log)}, tmp_path / "copy", once=True))
    assert (tmp_path / "copy/0.log").read_bytes() == log.read_bytes()


def test_a_reader_goes_on_from_its_own_place(here: Transport, log: Path, tmp_path: Path) -> None:
    append(log, b"0123456789")
    list(follow(here, {"0": str(log)}, tmp_path / "copy", once=True))
    append(log, b"abc")
    events = list(follow(here, {"0": str(log)}, tmp_path / "copy", since={"0": 7}, once=True))
    assert [(event.offset, event.data) for event in events if isinstance(event, Piece)] == [
        (7, b"789"),
        (10, b"abc"),
    ]


def test_two_readers_fetch_once_and_one_takes_over_from_the_other(
    here: Transport, log: Path, tmp_path: Path
) -> None:
    append(log, b"one\n")
    first = Follower(here, {"0": log}, tmp_path / "copy")
    first.until(lambda: first.data["0"] == b"one\n")
    second = Follower(here, {"0": log}, tmp_path / "copy")
    append(log, b"two\n")
    second.until(lambda: second.data["0"] == b"one\ntwo\n")
    first.give_up()
    append(log, b"three\n")
    second.end()
    assert second.data["0"] == b"one\ntwo\nthree\n"
    assert (tmp_path / "copy/0.log").read_bytes() == log.read_bytes()


def test_a_host_that_is_not_reached_at_the_beginning_is_an_error(
    ssh: SshWorld, tmp_path: Path
) -> None:
    ssh.write("Host gone\n  HostName 127.0.0.1\n  Port 1\n")
    with pytest.raises(TransportError, match="refused"):
        list(follow(connect(Host("gone", "gone")), {"0": "/x"}, tmp_path / "copy"))


@pytest.mark.parametrize("kind", ["paramiko", "openssh"])
def test_no_byte_is_lost_or_doubled_over_a_line_that_breaks(
    ssh: SshWorld,
    bad_line: BadLine,
    log: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    monkeypatch.setattr(logs, "_FIRST_PAUSE", 0.1)
    there = connect(Host("bad", "bad", kind))  # type: ignore[arg-type]
    follower = Follower(there, {"0": log}, tmp_path / "copy")
    chance = random.Random(7)
    writing = threading.Event()

    def write() -> None:
        while not writing.wait(0.01):
            append(log, chance.randbytes(chance.randrange(40_000)))

    writer = threading.Thread(target=write)
    writer.start()
    faults: list[Callable[[], None]] = [bad_line.cut, ssh.server.cut, bad_line.stall]
    for number, fault in enumerate(faults):
        size = len(follower.data["0"])
        follower.until(lambda size=size: len(follower.data["0"]) > size + 200_000)
        fault()
        follower.until(lambda number=number: follower.kinds.count("lost") > number)
        bad_line.flow()
        follower.until(lambda number=number: follower.kinds.count("back") > number)
    writing.set()
    writer.join()
    follower.end()
    assert follower.data["0"] == log.read_bytes()
    assert (tmp_path / "copy/0.log").read_bytes() == log.read_bytes()


def test_a_stream_that_falls_silent_is_lost(
    ssh: SshWorld, bad_line: BadLine, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Here the connection itself would notice only after minutes.
    ssh.config.write_text(
        ssh.config.read_text().replace("ServerAliveInterval 1", "ServerAliveInterval 300")
    )
    monkeypatch.setattr(logs, "SILENCE", 2.0)
    append(log, b"one\n")
    follower = Follower(connect(Host("bad", "bad")), {"0": log}, tmp_path / "copy")
    follower.until(lambda: follower.data["0"] == b"one\n")
    bad_line.stall()
    follower.until(lambda: "lost" in follower.kinds)
    assert "nothing was heard" in follower.notices[-1].text
    bad_line.cut()
    bad_line.flow()
    append(log, b"two\n")
    follower.until(lambda: follower.data["0"] == b"one\ntwo\n", 60)
    follower.end()


def test_several_hosts_are_read_together(here: Transport, log: Path, tmp_path: Path) -> None:
    stop = threading.Event()
    files = {name: log.with_name(f"{name}.log") for name in ("a", "b")}
    for path in files.values():
        append(path, b"x" * 100_000)
    each = [
        follow(here, {name: str(path)}, tmp_path / name, stop=stop, once=True)
        for name, path in files.items()
    ]
    got = dict.fromkeys(files, 0)
    for event in merged(each, stop):
        assert isinstance(event, Piece)
        got[event.name] += len(event.data)
    assert got == {"a": 100_000, "b": 100_000}


def test_an_error_of_one_host_ends_all(here: Transport, log: Path, tmp_path: Path) -> None:
    def broken() -> Iterator[Piece | Notice]:
        raise TransportError("other", "unreachable", "is gone")
        yield  # type: ignore[unreachable]

    stop = threading.Event()
    each = [follow(here, {"0": str(log)}, tmp_path / "copy", stop=stop), broken()]
    with pytest.raises(TransportError, match="is gone"):
        list(merged(each, stop))
    assert stop.is_set()


def test_remote_readers_end_with_the_connection(ssh: SshWorld, log: Path, tmp_path: Path) -> None:
    append(log, b"one\n")
    follower = Follower(connect(Host("box", "box")), {"0": log}, tmp_path / "copy")
    follower.until(lambda: follower.data["0"] == b"one\n")
    assert remote_shells(ssh)
    ssh.server.cut()
    follower.until(lambda: "back" in follower.kinds)
    follower.give_up()
    deadline = time.monotonic() + 10
    while remote_shells(ssh) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert remote_shells(ssh) == []


def remote_shells(ssh: SshWorld) -> list[int]:
    found = []
    for process in ssh.server.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name() == "sh":
                found.append(process.pid)
    return found


# Text


@given(st.text(), st.data())
def test_a_character_that_is_cut_in_two_is_put_together(text: str, data: st.DataObject) -> None:
    whole = text.encode("utf-8", "replace")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    reader, got = LogText(), ""
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        got += reader.feed(Piece("0", start, whole[start:end]))
    assert got + reader.rest("0") == whole.decode()


def test_ranks_do_not_share_a_half_character() -> None:
    reader = LogText()
    assert reader.feed(Piece("0", 0, b"caf\xc3")) == "caf"
    assert reader.feed(Piece("1", 0, b"b\xc3\xa9")) == "bé"
    assert reader.feed(Piece("0", 4, b"\xa9\r\n")) == "é\r\n"


def test_garbage_is_replaced_and_a_beginning_within_a_character_is_left_out() -> None:
    reader = LogText()
    assert reader.feed(Piece("0", 5, b"\xa9 and")) == " and"
    assert reader.feed(Piece("0", 10, b"\xff!\xe2\x82")) == "�!"
    assert reader.rest("0") == "�"


@given(st.lists(st.binary(max_size=20), max_size=6), st.data())
def test_bytes_and_notes_are_told_apart_however_they_are_cut(
    pieces: list[bytes], data: st.DataObject
) -> None:
    mark = "0123abcd"
    whole = (
        b"".join(
            b"\036%sdata 1 77 %d\n%s" % (mark.encode(), number, piece)
            for number, piece in enumerate(pieces)
        )
        + b"\036%sbeat\n" % mark.encode()
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    notes, got = Notes(mark), [b""]
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        for note in notes.feed(whole[start:end]):
            if note.what == "bytes":
                got[-1] += note.data
            elif note.what == "data":
                assert (note.file, note.inode, note.offset) == (0, 77, len(got) - 1)
                got.append(b"")
    assert got[1:] == pieces


# The copy


def test_the_copy_knows_its_place_after_any_crash(tmp_path: Path) -> None:
    copy = LogCopy(tmp_path, "0")
    copy.begin(7)
    copy.append(b"abc")
    copy.begin(8)  # and here it died, before the first byte
    again = LogCopy(tmp_path, "0")
    assert (again.inode, again.offset, again.size) == (8, 0, 3)
    again.append(b"de")
    last = LogCopy(tmp_path, "0")
    assert (last.inode, last.offset, last.check()[0]) == (8, 2, 2)
    for each in (copy, again, last):
        each.close()


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".x", "a b"])
def test_a_name_that_would_leave_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="one plain word"):
        LogCopy(tmp_path, name)


@pytest.mark.parametrize(
    ("text", "count", "expected"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\n", 5, b"a\n"),
        (b"", 3, b""),
        (b"a\nb\n", 0, b""),
        (b"x" * 70_000 + b"\nlast\n", 1, b"last\n"),
        (b"\n\n\n", 2, b"\n\n"),
    ],
)
def test_the_last_lines_are_found(tmp_path: Path, text: bytes, count: int, expected: bytes) -> None:
    (tmp_path / "0.log").write_bytes(text)
    assert text[offset_of_last_lines(tmp_path, "0", count) :] == expected
