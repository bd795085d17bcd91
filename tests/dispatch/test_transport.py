"""What every transport must do, tried on all of them: no network, paramiko, the ssh program."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.services.sshd import Host, SshWorld
from theseus.dispatch import transport as transports
from theseus.dispatch.transport import RemoteFileError, Transport, TransportError, connect, quoted
from theseus.dispatch.transport.framing import Frame, Unframed

# Any text that an argument can be: without NUL, but with bytes that are not UTF-8.
arguments = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"])
    | st.sampled_from("'\"\\$`!~*?#;&|<>(){}[]=- \t\r\n\x1b\udcff\udce9"),
    max_size=30,
)
PRINT_ALL = "for each; do printf '%s\\000' \"$each\"; done"


@pytest.fixture(params=["local", "paramiko", "openssh"])
def transport(request: pytest.FixtureRequest) -> Iterator[Transport]:
    if request.param == "local":
        yield connect(Host("here", None, "local"))
    else:
        request.getfixturevalue("ssh")
        yield connect(Host("there", "box", request.param))
    transports.close_all()


# Quoting


@given(st.lists(arguments, max_size=6))
def test_a_shell_reads_back_the_words_that_were_quoted(words: list[str]) -> None:
    program = f"set -- {quoted(*words)}\n{PRINT_ALL}".encode("utf-8", "surrogateescape")
    out = subprocess.run(["/bin/sh"], input=program, capture_output=True, check=True).stdout
    assert out.decode("utf-8", "surrogateescape").split("\0")[:-1] == words


@given(words=st.lists(arguments, max_size=4))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arguments_arrive_as_they_were_given(transport: Transport, words: list[str]) -> None:
    out = transport.run(PRINT_ALL, *words).out
    assert out.decode("utf-8", "surrogateescape").split("\0")[:-1] == words


def test_an_argument_with_nul_is_refused(transport: Transport) -> None:
    with pytest.raises(ValueError, match="NUL"):
        transport.run("true", "a\0b")


@given(st.binary(max_size=80), st.binary(max_size=80), st.data())
def test_an_answer_is_found_however_it_is_cut(
    noise: bytes, answer: bytes, data: st.DataObject
) -> None:
    frame = Frame("12", "34")
    whole = noise + b"\0361234<" + answer + b"\0361234>7\n" + noise
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    unframed, got = Unframed(frame), b""
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        got += unframed.feed(whole[start:end])
    assert (got, unframed.status) == (answer, 7)


def test_what_ends_before_its_last_mark_has_no_status() -> None:
    unframed = Unframed(Frame("12", "34"))
    assert unframed.feed(b"hello\0361234<all of it\0361234>") == b"all of it"
    assert unframed.status is None


# Programs


def test_status_output_and_errors_are_exact(transport: Transport) -> None:
    answer = transport.run("printf 'a\\000b'; printf 'no end of line' >&2; exit 7")
    assert (answer.status, answer.out, answer.err) == (7, b"a\0b", b"no end of line")


def test_input_is_what_the_program_reads_and_nothing_else(transport: Transport) -> None:
    given_ = bytes(range(256)) * 2000 + b"\nexit 5\n"
    answer = transport.run("cat", input=given_)
    assert (answer.status, answer.out) == (0, given_)


def test_input_that_nobody_reads_does_no_harm(transport: Transport) -> None:
    assert transport.run("echo done", input=b"x" * 5_000_000).out == b"done\n"


def test_a_program_without_input_finds_its_end_at_once(transport: Transport) -> None:
    assert transport.run("cat; read -r line || echo nothing", timeout=10).out == b"nothing\n"


def test_a_program_with_a_mistake_has_a_status_and_its_text(transport: Transport) -> None:
    answer = transport.run("if then (")
    assert answer.status != 0
    assert b"yntax error" in answer.err or b"unexpected" in answer.err


def test_a_child_left_behind_does_not_hold_the_answer(transport: Transport) -> None:
    began = time.monotonic()
    out = transport.run("sleep 20 & echo $!").out
    assert time.monotonic() - began < 10
    transport.run('kill "$1"', out.decode().strip())


def test_a_long_answer_is_whole(transport: Transport) -> None:
    assert len(transport.run("head -c 30000000 /dev/zero").out) == 30_000_000


def test_a_slow_program_is_a_timeout_and_the_next_one_works(transport: Transport) -> None:
    with pytest.raises(TransportError, match=r"1 second") as caught:
        transport.run("sleep 30", timeout=1)
    assert caught.value.kind == "timeout"
    assert transport.run("echo on").out == b"on\n"


def test_a_shell_that_is_killed_is_a_loss_not_an_empty_answer(transport: Transport) -> None:
    with pytest.raises(TransportError) as caught:
        transport.run("echo some; kill -9 $$")
    assert caught.value.kind == "lost"
    assert transport.run("echo on").out == b"on\n"


def test_neither_program_nor_arguments_are_seen_in_the_list_of_processes(
    transport: Transport,
) -> None:
    secret = "hf-very-secret-token"
    listed = transport.run(
        "ps -e -o args 2>/dev/null; grep -sa . /proc/[0-9]*/cmdline; true", secret
    )
    assert secret.encode() not in listed.out
    assert listed.out


def test_many_threads_share_one_transport(transport: Transport) -> None:
    answers: dict[int, bytes] = {}

    def ask(number: int) -> None:
        answers[number] = transport.run('sleep 0.1; echo "$1"', str(number)).out

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: b"%d\n" % number for number in range(12)}


def test_a_transport_is_one_per_host_and_process(transport: Transport) -> None:
    here = Host("h", None, "local")
    assert connect(here) is connect(here)
    assert connect(here) is not connect(Host("other", None, "local"))


def test_it_opens_again_after_it_was_closed(transport: Transport) -> None:
    transport.run("true")
    transport.close()
    assert transport.run("echo again").out == b"again\n"


def test_a_fork_is_told_to_connect_by_itself(transport: Transport) -> None:
    transport.run("true")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            transport.run("true")
            os.write(writer, b"ran")
        except TransportError as error:
            own = connect(Host("here", None, "local")).run("echo own").out
            os.write(writer, f"{error.kind} {error} ".encode() + own)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    said = os.read(reader, 10_000)
    os.close(reader)
    assert said.startswith(b"lost")
    assert said.endswith(b"own\n")
    assert transport.run("echo fine").out == b"fine\n"  # the parent's is unharmed


# Streams


def test_a_stream_gives_bytes_as_they_come(transport: Transport) -> None:
    stream = transport.stream("for i in 1 2 3; do echo $i; sleep 0.3; done; echo sorry >&2; exit 4")
    chunks = []
    first = None
    for chunk in stream:
        first = first or time.monotonic()
        chunks.append(chunk)
    assert first is not None
    assert time.monotonic() - first > 0.4
    assert b"".join(chunks) == b"1\n2\n3\n"
    assert stream.answer is not None
    assert (stream.answer.status, stream.answer.err) == (4, b"sorry\n")


def test_a_quiet_stream_can_be_asked_without_waiting(transport: Transport) -> None:
    stream = transport.stream("echo one; sleep 30")
    assert stream.read(10) == b"one\n"
    assert stream.read(0.1) is None
    stream.close()


def test_a_closed_stream_ends_its_program(transport: Transport, tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    stream = transport.stream('while :; do echo >>"$1"; echo beat; sleep 0.1; done', str(beats))
    stream.read(10)
    stream.close()
    time.sleep(1.0)
    size = beats.stat().st_size
    time.sleep(0.5)
    assert beats.stat().st_size == size


def test_more_streams_than_a_server_allows_on_one_connection(transport: Transport) -> None:
    streams = [transport.stream('echo "$1"; sleep 60', str(number)) for number in range(13)]
    try:
        assert [stream.read(10) for stream in streams] == [b"%d\n" % number for number in range(13)]
        assert transport.run("echo room").out == b"room\n"
    finally:
        for stream in streams:
            stream.close()


# Files


def test_a_file_goes_there_and_back_under_any_name(transport: Transport, tmp_path: Path) -> None:
    for name in ["plain", "a b", 'a"=0"', "a'; echo x", r"a\=0", "-n", "é\n"]:
        target = tmp_path / "made for it" / name
        content = os.urandom(300_000)
        transport.put(content, str(target), mode=0o640)
        assert target.read_bytes() == content
        assert target.stat().st_mode & 0o777 == 0o640
        transport.get(str(target), tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == content
        assert [path.name for path in target.parent.iterdir()] == [name]
        target.unlink()


def test_a_large_file_is_sent_from_disk_with_progress(transport: Transport, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(1 << 20) * 8)
    seen: list[tuple[int, int | None]] = []
    transport.put(source, str(tmp_path / "target"), progress=lambda *now: seen.append(now))
    assert (tmp_path / "target").read_bytes() == source.read_bytes()
    assert seen[0] == (0, 8 << 20)
    assert seen[-1] == (8 << 20, 8 << 20)
    assert seen == sorted(seen)
    assert len(seen) > 4


def test_what_is_there_already_is_not_sent_again(transport: Transport, tmp_path: Path) -> None:
    target = tmp_path / "target"
    content = os.urandom(1000)
    transport.put(content, str(target))
    before = target.stat()
    seen: list[tuple[int, int | None]] = []
    transport.put(content, str(target), mode=0o644, progress=lambda *now: seen.append(now))
    assert target.stat().st_ino == before.st_ino
    assert target.stat().st_mode & 0o777 == 0o644
    assert seen == [(1000, 1000)]
    transport.put(b"y" * 1000, str(target))
    assert target.read_bytes() == b"y" * 1000


def partial_of(target: Path, content: bytes, whose: str) -> Path:
    digest = hashlib.sha256(content).hexdigest()
    return target.with_name(f"{target.name}.partial-{digest[:16]}-{whose}")


def test_sending_again_goes_on_from_what_has_arrived(transport: Transport, tmp_path: Path) -> None:
    target, content = tmp_path / "target", os.urandom(2 << 20)
    partial_of(target, content, "0").write_bytes(content[:600_000])
    partial_of(target, content, "1").write_bytes(content[:900_000])
    of_another = partial_of(target, b"other content", "2")
    of_another.write_bytes(content[:1_000_000])
    seen: list[int] = []
    transport.put(content, str(target), progress=lambda sent, _: seen.append(sent))
    assert target.read_bytes() == content
    assert seen[0] == 900_000
    assert sorted(tmp_path.iterdir()) == sorted([target, of_another])


def test_what_has_arrived_wrong_is_sent_again_from_its_beginning(
    transport: Transport, tmp_path: Path
) -> None:
    target, content = tmp_path / "target", os.urandom(2 << 20)
    partial_of(target, content, "0").write_bytes(b"wrong" * 1000)
    seen: list[int] = []
    transport.put(content, str(target), progress=lambda sent, _: seen.append(sent))
    assert target.read_bytes() == content
    assert (seen[0], min(seen)) == (5000, 0)
    assert list(tmp_path.iterdir()) == [target]


def test_several_who_send_the_same_at_once_all_succeed(
    transport: Transport, tmp_path: Path
) -> None:
    """Whoever is first takes the file away, as unpacking does."""
    target, content = tmp_path / "target", os.urandom(2 << 20)
    failures: list[BaseException] = []

    def send() -> None:
        try:
            transport.put(content, str(target))
            target.unlink(missing_ok=True)
        except BaseException as error:  # noqa: BLE001 - shown by the test
            failures.append(error)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_a_file(transport: Transport, tmp_path: Path) -> None:
    transport.put(b"", str(tmp_path / "empty"))
    transport.get(str(tmp_path / "empty"), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b""


def test_a_folder_is_not_written_over(transport: Transport, tmp_path: Path) -> None:
    with pytest.raises(RemoteFileError, match="is a folder"):
        transport.put(b"x", str(tmp_path))
    with pytest.raises(RemoteFileError, match="is a folder"):
        transport.get(str(tmp_path), tmp_path / "x")


def test_a_full_disk_is_said_and_leaves_nothing(transport: Transport, tmp_path: Path) -> None:
    with pytest.raises(RemoteFileError, match="cannot be written") as caught:
        transport.put(b"x" * 100_000, "/dev/null/x")
    assert caught.value.path == "/dev/null/x"


def test_a_file_that_is_not_there_is_said_so(transport: Transport, tmp_path: Path) -> None:
    with pytest.raises(RemoteFileError, match="does not exist"):
        transport.get(str(tmp_path / "none"), tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_fetching_goes_on_where_it_was(transport: Transport, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "to" / "target"
    content = os.urandom(1_000_000)
    source.write_bytes(content)
    target.parent.mkdir()
    digest = hashlib.sha256(content).hexdigest()
    (target.parent / f".target.{digest[:16]}.partial").write_bytes(content[:600_000])
    (target.parent / f".target.{'0' * 16}.partial").write_bytes(b"of an older version")
    seen: list[tuple[int, int | None]] = []
    transport.get(str(source), target, progress=lambda *now: seen.append(now))
    assert seen[0] == (600_000, 1_000_000)
    assert target.read_bytes() == content
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_a_partial_file_that_is_wrong_is_not_trusted(transport: Transport, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"right" * 1000)
    digest = hashlib.sha256(b"right" * 1000).hexdigest()
    (tmp_path / f".target.{digest[:16]}.partial").write_bytes(b"wrong")
    with pytest.raises(RemoteFileError, match="fetch it again"):
        transport.get(str(source), target)
    assert not target.exists()
    transport.get(str(source), target)
    assert target.read_bytes() == b"right" * 1000


# Paths


def home() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_dir


def test_paths_are_resolved_on_the_host(ssh: SshWorld) -> None:
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    there = connect(Host("there", "box", "paramiko"))
    assert there.resolve("~") == home()
    assert there.resolve("~/a b/c") == f"{home()}/a b/c"
    assert there.resolve(f"~{user}/x") == f"{home()}/x"
    assert there.resolve("$HOME/x") == f"{home()}/x"
    assert there.resolve("${HOME}") == home()
    assert there.resolve("work") == f"{home()}/work"
    assert there.resolve("/data/it's") == "/data/it's"


def test_a_path_that_cannot_be_resolved_is_refused(transport: Transport) -> None:
    unset, nobody = "$THESEUS_NOT_SET/x", "~nobody-of-this-name/x"
    for path in [nobody, unset, "/a/~/b", "/a/$(id)", "/a$", "/$1", "", "/`id`$"]:
        with pytest.raises(RemoteFileError, match=r"cannot be resolved|still has|is no path"):
            transport.resolve(path)


def test_an_unset_variable_is_named(transport: Transport) -> None:
    with pytest.raises(RemoteFileError, match=r"\$THESEUS_NOT_SET is not set there"):
        transport.resolve("$THESEUS_NOT_SET/x")


def test_a_path_is_asked_about_once(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    transport.resolve("~/x")
    monkeypatch.setattr(type(transport), "run", None)
    assert transport.resolve("~/x").endswith("/x")


def test_put_and_get_resolve_their_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THESEUS_TEST_FOLDER", str(tmp_path))
    here = connect(Host("here", None, "local"))
    here.put(b"x", "$THESEUS_TEST_FOLDER/x")
    here.get("$THESEUS_TEST_FOLDER/x", tmp_path / "y")
    assert (tmp_path / "y").read_bytes() == b"x"
    transports.close_all()


# The process


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, theseus.dispatch.transport, theseus.dispatch.logs\n"
        "print({'paramiko', 'cryptography', 'jax', 'yaml'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("kind", ["local", "paramiko", "openssh"])
def test_a_process_ends_by_itself_and_leaves_nothing(ssh: SshWorld, kind: str) -> None:
    code = (
        "import sys; from tests.services.sshd import Host\n"
        "from theseus.dispatch.transport import connect\n"
        f"there = connect(Host('there', {None if kind == 'local' else 'box'!r}, {kind!r}))\n"
        "stream = there.stream('echo up; sleep 600')\n"
        "print(stream.read(20), len(sys.argv))\n"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "b'up\\n' 1\n", "")
    assert time.monotonic() - began < 30
    runtime = Path(os.environ["XDG_RUNTIME_DIR"])
    assert [path for path in runtime.rglob("*") if path.is_socket()] == []
