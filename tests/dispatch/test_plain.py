"""A plain machine: what is free there, claims that nobody shares, runs that end as a whole."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.dispatch.fakes import Gpus, Shell, program
from theseus.dispatch import transport as transports
from theseus.dispatch.inventory import Cluster, Host
from theseus.dispatch.providers import plain
from theseus.dispatch.providers.base import PROVIDERS, Launch, LaunchError, NoRoomError, Placement
from theseus.dispatch.providers.plain import PlainProvider
from theseus.hardware.resources import Resources

PLAIN = PlainProvider()
GIB = 2**30


@pytest.fixture(autouse=True)
def _claims(tmp_path, monkeypatch):
    monkeypatch.setattr(plain, "CLAIMS", str(tmp_path / "claims"))
    monkeypatch.setattr(plain, "GRACE", 3)
    monkeypatch.setattr(plain, "RELEASE", 1)


@pytest.fixture
def gpus(tmp_path):
    return Gpus(tmp_path / "machine")


@pytest.fixture
def started():
    """Ends what a test has started, whatever becomes of the test."""
    handles = []
    yield handles.append
    for handle in handles:
        for process in _marked(handle.values["run"]):
            process.kill()


def host(kind="plain", **chips):
    return Host("box", kind, Cluster("lab", "/r", "/w"), ssh="box", chips=chips)


def probe(shell, *chips, gpus=None, **more):
    wanted = Resources(chips=chips, gpus=gpus, **more)
    return PLAIN.probe(host(h100=4), shell, wanted, None)


def launch_of(tmp_path, *command, run="r1", gpus=0, ids=(), attempt=1):
    run = unique(tmp_path, run)
    folder, work = tmp_path / "runs" / run, tmp_path / "work dir's"
    folder.mkdir(parents=True, exist_ok=True)
    work.mkdir(exist_ok=True)
    placement = Placement("box", "h100" if gpus else None, gpus, 1, tuple(ids))
    return Launch(
        run, run, str(folder), str(work), command, placement, None, None, str(folder / "log"), attempt
    )  # fmt: skip


def unique(tmp_path, run):
    """Return a run's id that no other test has, not even one that runs at the same time."""
    return f"{run}-{zlib.crc32(str(tmp_path).encode()):08x}"


def wait_for(what, seconds=20.0):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
    return found


def ended(shell, handle):
    def seen():
        now = PLAIN.state(host(), shell, handle)
        return now if now.state != "running" else None

    return wait_for(seen)


def _marked(run):
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("THESEUS_RUN") == run and process.status() != "zombie":
                found.append(process)
        except psutil.Error:
            continue
    return found


def log_of(launch):
    return (Path(launch.log) / "0.log").read_text()


# Probe


def test_free_gpus_are_named_by_uuid(gpus):
    verdict = probe(gpus.shell(), "h100", gpus=2)
    assert (verdict.fit, verdict.reason) == ("now", "4 of 4 h100 free")
    assert verdict.placement == Placement("box", "h100", 2, 1, ("GPU-0", "GPU-1"))
    assert (verdict.free, verdict.total) == ({"h100": 4}, {"h100": 4})


def test_one_chip_is_meant_where_only_a_kind_is_named(gpus):
    assert len(probe(gpus.shell(), "h100").placement.gpu_ids) == 1


def test_any_chip_will_do_where_none_is_named(gpus):
    assert probe(gpus.shell(), gpus=4).placement.chip == "h100"


def test_the_wrong_chip_is_told(gpus):
    verdict = probe(gpus.shell(), "a100-sxm4-80gb", gpus=1)
    assert (verdict.fit, verdict.reason) == ("no", "needs a100-sxm4-80gb, has h100")


def test_too_few_are_told(gpus):
    assert probe(gpus.shell(), "h100", gpus=8).reason == "needs 8 × h100, has 4"


def test_the_first_acceptable_chip_that_fits_is_taken(gpus):
    gpus.show(
        gpus.rows[0], "1, GPU-1, NVIDIA L4, 23034, 4, 0, N/A, N/A", "2, GPU-2, NVIDIA L4, 23034, 4, 0, N/A, N/A"
    )  # fmt: skip
    assert probe(gpus.shell(), "h100", "l4", gpus=1).placement.chip == "h100"
    assert probe(gpus.shell(), "h100", "l4", gpus=2).placement.gpu_ids == ("GPU-1", "GPU-2")


def test_who_holds_the_busy_ones_is_told(gpus):
    me = f"GPU-1, {os.getpid()}, python, 70000"
    gpus.show(gpus.rows[0], gpus.rows[1].replace(" 4,", " 70004,"))
    gpus.processes(me)
    user = psutil.Process().username()
    verdict = probe(gpus.shell(), "h100", gpus=2)
    assert (verdict.fit, verdict.holders) == ("no", {user: 1})
    assert verdict.reason == f"1 of 2 × h100 busy ({user}: 1)"
    assert probe(gpus.shell(), "h100", gpus=1).placement.gpu_ids == ("GPU-0",)


def test_a_process_without_utilization_or_memory_still_holds_its_gpu(gpus):
    gpus.show(gpus.rows[0])
    gpus.processes(f"GPU-0, {os.getpid()}, python, 10")
    assert probe(gpus.shell(), "h100").fit == "no"


def test_memory_of_a_process_that_is_gone_is_not_free_and_is_told(gpus):
    gone = subprocess.Popen(["true"])
    gone.wait()
    gpus.show(gpus.rows[0].replace(" 4,", " 60004,"))
    gpus.processes(f"GPU-0, {gone.pid}, [Not Found], 60000")
    verdict = probe(gpus.shell(), "h100")
    assert verdict.reason == f"1 × h100 busy; GPU 0 held by a process that is gone ({gone.pid})"


def test_memory_without_a_process_is_looked_at_again(gpus, tmp_path):
    # The first look meets a process that is just ending; afterwards the GPU is idle.
    busy = gpus.rows[0].replace(" 4,", " 60004,")
    program(
        gpus.bin,
        "nvidia-smi",
        f'#!/bin/sh\ncase $* in *compute-apps*) exit;; esac\n'
        f'if [ -f {tmp_path}/again ]; then echo "{gpus.rows[0]}"; else touch {tmp_path}/again; echo "{busy}"; fi\n',
    )  # fmt: skip
    assert probe(gpus.shell(), "h100").fit == "now"


def test_memory_without_a_process_that_stays_is_not_free(gpus):
    gpus.show(gpus.rows[0].replace(" 4,", " 7168,"))
    verdict = probe(gpus.shell(), "h100")
    assert verdict.reason == "1 × h100 busy; GPU 0 7.0 GiB held by no process that is listed"


def test_a_card_that_does_not_answer_is_told_and_the_others_are_used(gpus):
    lost = "Unable to determine the device handle for GPU0000:02:00.0: Unknown Error"
    gpus.show(gpus.rows[0], lost)
    (gpus.state / "status").write_text("1")
    verdict = probe(gpus.shell(), "h100", gpus=1)
    assert (verdict.fit, verdict.reason) == ("now", "1 of 1 h100 free; 1 card did not answer")
    assert probe(gpus.shell(), "h100", gpus=2).reason == (
        "needs 2 × h100, has 1; 1 card did not answer"
    )


def test_a_gpu_split_by_mig_is_told(gpus):
    gpus.show(gpus.rows[0].replace("Disabled, Disabled", "Enabled, Disabled"))
    assert probe(gpus.shell(), "h100").reason == "1 × h100 busy; GPU 0 split by MIG"


def test_a_driver_that_fails_is_quoted(gpus):
    gpus.show("Failed to initialize NVML: Driver/library version mismatch")
    (gpus.state / "status").write_text("18")
    assert probe(gpus.shell(), "h100").reason == (
        "needs h100, nvidia-smi shows no GPU: "
        "Failed to initialize NVML: Driver/library version mismatch"
    )


def test_an_old_driver_without_mig_is_understood(gpus):
    (gpus.state / "old").touch()
    assert probe(gpus.shell(), "h100", gpus=4).fit == "now"


def test_a_machine_without_nvidia_smi_has_no_gpus():
    shell = Shell(PATH="/usr/bin:/bin")
    assert probe(shell, "h100").reason == "needs h100, has no GPUs (no nvidia-smi there)"


@pytest.mark.parametrize(
    "wanted", [Resources(), Resources(gpus=0), Resources(chips=("cpu",)), Resources(chips=("cpu",), gpus=1)]
)  # fmt: skip
def test_a_run_on_processors_needs_no_gpu(wanted):
    verdict = PLAIN.probe(host(), Shell(PATH="/usr/bin:/bin"), wanted, None)
    assert (verdict.fit, verdict.placement) == ("now", Placement("box", None, 0, 1))
    assert re.fullmatch(
        rf"{os.cpu_count()} CPUs, [\d.]+ GiB of memory free, load [\d.]+", verdict.reason
    )


def test_too_much_memory_or_too_many_processors_are_told():
    shell = Shell()
    total = psutil.virtual_memory().total
    assert probe(shell, cpus=4096).reason == f"needs 4096 CPUs, has {os.cpu_count()}"
    said = probe(shell, memory=total * 4).reason
    assert re.fullmatch(r"needs \d+ GiB of memory, has [\d.]+ GiB", said)


def test_several_nodes_are_refused(gpus):
    assert probe(gpus.shell(), "h100", gpus=4, nodes=2).reason == "needs 2 nodes, is one machine"


# Launch, state


def test_a_run_outlives_its_launch_and_says_how_it_ended(tmp_path, started):
    launch = launch_of(tmp_path, "sh", "-c", 'echo "$1 in $PWD"; exit 3', "x", "a b'c\n$HOME `d`")
    handle = PLAIN.launch(host(), Shell(), launch)
    started(handle)
    seen = ended(Shell(), handle)
    assert (seen.state, seen.reason) == ("failed", "exit status 3")
    assert log_of(launch) == f"a b'c\n$HOME `d` in {launch.work}\n"


def test_a_run_that_ends_well_is_finished(tmp_path, started):
    handle = PLAIN.launch(host(), Shell(), launch_of(tmp_path, "true"))
    assert ended(Shell(), handle).state == "finished"


def test_a_run_sees_the_gpus_it_was_given_and_who_it_is(tmp_path, gpus, started):
    show = 'echo "$CUDA_VISIBLE_DEVICES $THESEUS_RUN $THESEUS_PROCESS"'
    launch = launch_of(tmp_path, "sh", "-c", show, gpus=2, ids=("GPU-2", "GPU-1"))
    handle = PLAIN.launch(host(), gpus.shell(), launch)
    assert ended(gpus.shell(), handle).state == "finished"
    assert log_of(launch) == f"GPU-2,GPU-1 {launch.run_id} 0\n"
    assert handle.values["gpus"] == "GPU-2,GPU-1"


def test_a_run_on_processors_sees_no_gpu(tmp_path, gpus):
    launch = launch_of(tmp_path, "sh", "-c", 'echo "<${CUDA_VISIBLE_DEVICES-unset}>"')
    shell = gpus.shell(CUDA_VISIBLE_DEVICES="0,1")
    ended(shell, PLAIN.launch(host(), shell, launch))
    assert log_of(launch) == "<>\n"


def test_a_run_is_in_a_session_of_its_own_and_holds_no_lock(tmp_path, gpus, started):
    launch = launch_of(tmp_path, "sleep", "60", gpus=1, ids=("GPU-0",))
    handle = PLAIN.launch(host(), gpus.shell(), launch)
    started(handle)
    process = psutil.Process(handle.values["pid"])
    assert os.getsid(process.pid) == process.pid
    for one in [process, *process.children(recursive=True)]:
        targets = [str(path.readlink()) for path in Path(f"/proc/{one.pid}/fd").iterdir()]
        assert not [target for target in targets if "lock" in target]


def test_the_same_attempt_is_found_and_not_started_again(tmp_path, started):
    launch = launch_of(tmp_path, "sh", "-c", "echo once; sleep 0.3")
    first = PLAIN.launch(host(), Shell(), launch)
    again = PLAIN.launch(host(), Shell(), launch)
    ended(Shell(), first)
    late = PLAIN.launch(host(), Shell(), launch)
    assert first == again == late
    assert log_of(launch) == "once\n"


def test_many_launches_of_one_attempt_start_it_once(tmp_path, started):
    launch = launch_of(tmp_path, "sh", "-c", "echo once; sleep 60")
    with ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(lambda _: PLAIN.launch(host(), Shell(), launch), range(8)))
    started(handles[0])
    assert len({handle.values["pid"] for handle in handles}) == 1
    wait_for(lambda: log_of(launch) == "once\n")


def test_the_next_attempt_goes_on_in_the_same_folder(tmp_path):
    for attempt in (1, 2):
        launch = launch_of(
            tmp_path, "sh", "-c", f"echo {attempt}; exit {attempt - 1}", attempt=attempt
        )
        handle = PLAIN.launch(host(), Shell(), launch)
        seen = ended(Shell(), handle)
    assert (seen.state, log_of(launch)) == ("failed", "1\n2\n")


def test_the_next_attempt_does_not_start_beside_one_that_lives(tmp_path, started):
    first = PLAIN.launch(host(), Shell(), launch_of(tmp_path, "sleep", "60"))
    started(first)
    assert PLAIN.launch(host(), Shell(), launch_of(tmp_path, "sleep", "60", attempt=2)) == first


def test_a_command_that_is_not_there_is_told(tmp_path):
    handle = PLAIN.launch(host(), Shell(), launch_of(tmp_path, "/no/such/program"))
    assert ended(Shell(), handle).reason == "its command was not found"


def test_a_missing_folder_is_an_error(tmp_path):
    launch = launch_of(tmp_path, "true")
    Path(launch.work).rmdir()
    with pytest.raises(LaunchError, match="host 'box': the run was not started: the code's folder"):
        PLAIN.launch(host(), Shell(), launch)


def test_a_run_that_was_killed_outright_is_lost(tmp_path):
    handle = PLAIN.launch(host(), Shell(), launch_of(tmp_path, "sleep", "60"))
    os.killpg(handle.values["pid"], signal.SIGKILL)
    seen = ended(Shell(), handle)
    assert seen.state == "lost"
    assert seen.reason == "its first process was killed before it could write how it ended"


def test_a_number_that_another_process_has_now_is_not_the_run(tmp_path):
    handle = PLAIN.launch(host(), Shell(), launch_of(tmp_path, "true"))
    ended(Shell(), handle)
    (Path(handle.values["folder"]) / "exit").unlink()
    other = type(handle)("plain", {**handle.values, "pid": os.getpid()})
    assert PLAIN.state(host(), Shell(), other).state == "lost"
    PLAIN.cancel(host(), Shell(), other)  # and it is not ended: we are here


def test_a_restarted_machine_has_lost_the_run(tmp_path, started):
    handle = PLAIN.launch(host(), Shell(), launch_of(tmp_path, "sleep", "60"))
    started(handle)
    before = type(handle)("plain", {**handle.values, "boot": "another"})
    seen = PLAIN.state(host(), Shell(), before)
    assert (seen.state, seen.reason.split(" before")[0]) == ("lost", "the machine was restarted")
    PLAIN.cancel(host(), Shell(), before)
    assert PLAIN.state(host(), Shell(), handle).state == "running"


@pytest.mark.parametrize("way", ["paramiko", "openssh"])
def test_over_ssh_a_run_outlives_the_connection_that_launched_it(tmp_path, ssh, started, way):
    box = Host("box", "plain", Cluster("lab", "/r", "/w"), ssh="box", transport=way)
    launch = launch_of(tmp_path, "sh", "-c", "echo up; sleep 60")
    handle = PLAIN.launch(box, transports.connect(box), launch)
    started(handle)
    ssh.server.cut()
    transports.close_all()
    wait_for(lambda: log_of(launch) == "up\n")
    assert PLAIN.state(box, transports.connect(box), handle).state == "running"
    assert PLAIN.cancel(box, transports.connect(box), handle).state == "cancelled"
    transports.close_all()


# Claims


def test_a_claimed_gpu_is_not_given_again(tmp_path, gpus, started):
    first = PLAIN.launch(
        host(), gpus.shell(), launch_of(tmp_path, "sleep", "60", gpus=3, ids=("GPU-0", "GPU-1", "GPU-2"))
    )  # fmt: skip
    started(first)
    verdict = probe(gpus.shell(), "h100", gpus=2)
    assert verdict.reason == f"3 of 4 × h100 busy ({psutil.Process().username()}: 3)"
    with pytest.raises(NoRoomError, match="the GPUs that were free have been taken; submit again"):
        PLAIN.launch(
            host(), gpus.shell(), launch_of(tmp_path, "true", run="r2", gpus=2, ids=("GPU-2", "GPU-3"))
        )  # fmt: skip


def test_another_gpu_of_the_same_product_takes_the_place_of_one_that_was_taken(
    tmp_path, gpus, started
):
    for run, want in (("r1", "GPU-1"), ("r2", "GPU-0")):
        launch = launch_of(tmp_path, "sleep", "60", run=run, gpus=1, ids=("GPU-1",))
        handle = PLAIN.launch(host(), gpus.shell(), launch)
        started(handle)
        assert handle.values["gpus"] == want


def test_a_gpu_of_another_product_does_not(tmp_path, gpus, started):
    gpus.show(gpus.rows[0], "1, GPU-1, NVIDIA L4, 23034, 4, 0, N/A, N/A")
    started(
        PLAIN.launch(
            host(), gpus.shell(), launch_of(tmp_path, "sleep", "60", gpus=1, ids=("GPU-0",))
        )
    )
    with pytest.raises(NoRoomError):
        PLAIN.launch(
            host(), gpus.shell(), launch_of(tmp_path, "true", run="r2", gpus=1, ids=("GPU-0",))
        )


def test_a_gpu_that_somebody_else_uses_by_now_is_not_taken(tmp_path, gpus):
    ids = ("GPU-0", "GPU-1", "GPU-2", "GPU-3")
    for busy in (gpus.rows[3].replace(" 4,", " 9000,"), gpus.rows[3]):
        gpus.show(*gpus.rows[:3], busy)
        gpus.processes(f"GPU-3, {os.getpid()}, python, 10" if busy == gpus.rows[3] else "")
        with pytest.raises(NoRoomError):
            PLAIN.launch(host(), gpus.shell(), launch_of(tmp_path, "true", gpus=4, ids=ids))


def test_claims_end_with_the_run(tmp_path, gpus):
    for run in ("r1", "r2"):
        launch = launch_of(
            tmp_path, "true", run=run, gpus=4, ids=("GPU-0", "GPU-1", "GPU-2", "GPU-3")
        )
        assert ended(gpus.shell(), PLAIN.launch(host(), gpus.shell(), launch)).state == "finished"
    assert probe(gpus.shell(), "h100", gpus=4).fit == "now"


@pytest.mark.parametrize(
    ("claim", "free"),
    [
        ("run=x\npid=\nstart=\nboot={boot}\nuntil=9999999999\n", False),  # on its way
        ("run=x\npid=\nstart=\nboot={boot}\nuntil=1000\n", True),  # its time ran out
        ("run=x\npid={pid}\nstart={start}\nboot={boot}\nuntil=0\n", False),  # its process lives
        ("run=x\npid={pid}\nstart=17\nboot={boot}\nuntil=0\n", True),  # another has its number
        ("run=x\npid={pid}\nstart={start}\nboot=earlier\nuntil=0\n", True),  # before a restart
        ("nonsense\n", True),
        ("", True),
    ],
)
def test_a_claim_counts_only_while_it_is_true(tmp_path, gpus, claim, free):
    values = {
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "pid": os.getpid(),
        "start": Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[19],
    }
    (tmp_path / "claims").mkdir(mode=0o777)
    (tmp_path / "claims").chmod(0o1777)
    # Another user's file, which we could not remove.
    (tmp_path / "claims" / "GPU-0@4242").write_text(claim.format(**values))
    gpus.show(gpus.rows[0])
    assert (probe(gpus.shell(), "h100").fit == "now") == free
    launch = launch_of(tmp_path, "true", gpus=1, ids=("GPU-0",))
    if free:
        ended(gpus.shell(), PLAIN.launch(host(), gpus.shell(), launch))
    else:
        with pytest.raises(NoRoomError):
            PLAIN.launch(host(), gpus.shell(), launch)


def test_racing_launches_never_share_a_gpu(tmp_path, gpus, started):
    def start(number):
        launch = launch_of(
            tmp_path, "sleep", "60", run=f"race-{number}", gpus=1, ids=("GPU-0",)
        )  # fmt: skip
        try:
            return PLAIN.launch(host(), gpus.shell(), launch)
        except NoRoomError:
            return None

    with ThreadPoolExecutor(12) as pool:
        handles = [handle for handle in pool.map(start, range(12)) if handle]
    for handle in handles:
        started(handle)
    assert sorted(handle.values["gpus"] for handle in handles) == [
        "GPU-0",
        "GPU-1",
        "GPU-2",
        "GPU-3",
    ]
    assert all(_marked(handle.values["run"]) for handle in handles)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_two_users_of_a_machine_respect_each_others_claims(monkeypatch, started):
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        monkeypatch.setattr(plain, "CLAIMS", str(folder / "claims"))
        gpus = Gpus(folder / "machine", count=2)
        for path in folder.rglob("*"):
            path.chmod(0o777)
        theirs, ours = gpus.shell(*nobody), gpus.shell()
        chosen = []
        for number, shell in enumerate((theirs, ours)):
            launch = launch_of(
                folder / str(number), "sleep", "60", run=f"user-{number}", gpus=1, ids=("GPU-0",)
            )
            for path in (folder / str(number)).rglob("*"):
                path.chmod(0o777)
            (folder / str(number)).chmod(0o777)
            handle = PLAIN.launch(host(), shell, launch)
            started(handle)
            chosen.append(handle.values["gpus"])
        assert chosen == ["GPU-0", "GPU-1"]
        for shell in (theirs, ours):
            assert probe(shell, "h100").holders == {"nobody": 1, "root": 1}
        launch = launch_of(folder / "0", "true", run="user-2", gpus=1, ids=("GPU-0",))
        Path(launch.folder).chmod(0o777)
        with pytest.raises(NoRoomError):
            PLAIN.launch(host(), theirs, launch)


@pytest.mark.parametrize("trap", ["link", "not sticky", "fifo"])
def test_a_claims_folder_that_was_tampered_with_does_no_harm(tmp_path, gpus, trap):
    folder = tmp_path / "claims"
    if trap == "link":
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o777 if trap == "not sticky" else 0o1777)
    launch = launch_of(tmp_path, "true", gpus=1, ids=("GPU-0",))
    if trap == "fifo":
        os.mkfifo(folder / "GPU-0@4242")  # a reader would wait for ever
        assert ended(gpus.shell(), PLAIN.launch(host(), gpus.shell(), launch)).state == "finished"
        return
    with pytest.raises(LaunchError, match="must be a folder that every user may write to"):
        PLAIN.launch(host(), gpus.shell(), launch)


def test_a_link_in_place_of_a_claim_is_not_written_through(tmp_path, gpus):
    folder = tmp_path / "claims"
    folder.mkdir()
    folder.chmod(0o1777)
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (folder / f"GPU-0@{os.getuid()}").symlink_to(precious)
    launch = launch_of(tmp_path, "true", gpus=1, ids=("GPU-0",))
    ended(gpus.shell(), PLAIN.launch(host(), gpus.shell(), launch))
    assert precious.read_text() == "mine"


# Logging out


def test_a_machine_that_ends_processes_at_logout_is_refused_with_the_remedy(tmp_path):
    program(
        tmp_path / "bin",
        "loginctl",
        "#!/bin/sh\ncase $1 in show-session) echo KillUserProcesses=yes;; *) echo Linger=no;; esac\n",
    )
    shell = Shell(PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    with pytest.raises(LaunchError, match="loginctl enable-linger"):
        PLAIN.launch(host(), shell, launch_of(tmp_path, "true"))


def test_a_user_who_lingers_has_the_run_in_a_scope(tmp_path):
    program(
        tmp_path / "bin",
        "loginctl",
        "#!/bin/sh\ncase $1 in show-session) echo KillUserProcesses=yes;; *) echo Linger=yes;; esac\n",
    )
    program(
        tmp_path / "bin",
        "systemd-run",
        '#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\nSCOPED=yes exec "$@"\n',
    )
    shell = Shell(PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    launch = launch_of(tmp_path, "sh", "-c", 'echo "$SCOPED"')
    handle = PLAIN.launch(host(), shell, launch)
    assert ended(shell, handle).state == "finished"
    assert log_of(launch) == "yes\n"


# Cancel

TREE = r"""
import os, signal, subprocess, sys, time
mode = sys.argv[1]
if mode == "top":
    here = [sys.executable, sys.argv[0]]
    subprocess.Popen([*here, "stubborn"])
    subprocess.Popen([*here, "stubborn"], start_new_session=True)
    subprocess.run([*here, "orphan"])
if mode == "orphan":  # its child belongs to nobody afterwards
    subprocess.Popen([sys.executable, sys.argv[0], "stubborn"], start_new_session=True)
    raise SystemExit
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(mode, flush=True)
time.sleep(60)
"""


def test_cancel_ends_the_whole_tree(tmp_path, started):
    script = tmp_path / "tree.py"
    script.write_text(TREE)
    launch = launch_of(tmp_path, sys.executable, str(script), "top")
    handle = PLAIN.launch(host(), Shell(), launch)
    started(handle)
    wait_for(lambda: log_of(launch).count("stubborn") == 3 and "top" in log_of(launch))
    others = PLAIN.launch(host(), Shell(), launch_of(tmp_path, "sleep", "60", run="other"))
    started(others)
    seen = PLAIN.cancel(host(), Shell(), handle)
    assert (seen.state, _marked(launch.run_id)) == ("cancelled", [])
    assert PLAIN.state(host(), Shell(), others).state == "running"


def test_a_cancelled_run_may_end_well_and_knows_why(tmp_path, started):
    ends = (
        'trap "cat ../runs/*/stop; echo saved; exit 5" TERM; echo up; while :; do sleep 0.1; done'
    )
    launch = launch_of(tmp_path, "sh", "-c", ends)
    handle = PLAIN.launch(host(), Shell(), launch)
    started(handle)
    wait_for(lambda: "up" in log_of(launch))
    seen = PLAIN.cancel(host(), Shell(), handle)
    assert (seen.state, seen.reason) == ("cancelled", "exit status 5")
    assert log_of(launch).endswith("cancel\nsaved\n")


def test_what_has_ended_is_not_cancelled_any_more(tmp_path):
    for command, state in ((("true",), "finished"), (("false",), "failed")):
        handle = PLAIN.launch(host(), Shell(), launch_of(tmp_path, *command, run=state))
        ended(Shell(), handle)
        assert PLAIN.cancel(host(), Shell(), handle).state == state


def test_cancel_says_so_when_a_gpu_is_not_free_afterwards(tmp_path, gpus, started):
    launch = launch_of(tmp_path, "sleep", "60", gpus=1, ids=("GPU-2",))
    handle = PLAIN.launch(host(), gpus.shell(), launch)
    started(handle)
    gpus.show(*gpus.rows[:2], gpus.rows[2].replace(" 4,", " 60000,"))
    seen = PLAIN.cancel(host(), gpus.shell(), handle)
    assert (seen.state, seen.reason) == ("cancelled", "memory is still held on GPU-2")


def test_every_type_of_host_has_its_provider():
    assert list(PROVIDERS) == ["local", "plain", "slurm", "volcano"]
    assert isinstance(PROVIDERS["local"], PlainProvider)
    assert "slrum" not in PROVIDERS


# The same answers as the reader of `nvidia-smi` gives, from the program that claims.

CASES = json.loads((Path(__file__).parent / "cases" / "nvidia_smi.json").read_text("utf-8"))


@pytest.mark.parametrize(
    "case", [c for c in CASES if isinstance(c["want"], dict)], ids=lambda c: c["what"]
)
def test_the_claiming_program_calls_the_same_gpus_free(tmp_path, gpus, case):
    rows = [
        line + ", N/A, N/A" if line[0].isdigit() else line for line in case["input"].splitlines()
    ]
    gpus.show(*rows)
    wanted = re.findall(r"^\d+, (\S+),", case["input"], re.MULTILINE)
    free = len(case["want"]["free"])
    if free < len(wanted):
        with pytest.raises(NoRoomError):
            PLAIN.launch(
                host(), gpus.shell(), launch_of(tmp_path, "true", gpus=free + 1, ids=wanted)
            )
    if free:
        handle = PLAIN.launch(
            host(), gpus.shell(), launch_of(tmp_path, "true", gpus=free, ids=wanted)
        )
        rows = [line.split(", ") for line in case["input"].splitlines() if line[0].isdigit()]
        names = {row[1]: int(row[0]) for row in rows}
        assert [names[uuid] for uuid in handle.values["gpus"].split(",")] == case["want"]["free"]
