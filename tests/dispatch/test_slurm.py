"""A real SLURM: what it has, one job per attempt whatever its answers, states, cancel, requeue."""

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.dispatch.fakes import Shell, program
from theseus.dispatch.inventory import Cluster, Host, Inventory, SlurmSettings
from theseus.dispatch.providers.base import Launch, LaunchError, Placement
from theseus.dispatch.providers.slurm import SlurmProvider
from theseus.hardware.resources import Resources

SLURM = SlurmProvider()
CLUSTER = Cluster("lab", "/root", "/work")


def host(**settings):
    return Host("hpc", "slurm", CLUSTER, ssh="hpc", slurm=SlurmSettings(**settings))


def probe(shell, wanted, mapping=None, **settings):
    one = host(**settings)
    inventory = Inventory({"hpc": one}, {"lab": CLUSTER}, ("hpc",), mapping or {})
    return SLURM.probe(one, shell, wanted, inventory)


def launch_of(tmp_path, *command, run="r1", gres="gpu:h100:1", nodes=1, gpus=1, attempt=1, **more):
    folder = tmp_path / "runs" / run
    folder.mkdir(parents=True, exist_ok=True)
    placement = Placement("hpc", "h100", gpus, nodes, (), more.pop("partition", "gpu"), gres)
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    values = {"cpus": None, "memory": None, "name": "train gpt", **more}
    return Launch(
        run_id=run, folder=str(folder), work=str(work), command=command, placement=placement,
        log=str(folder / "log"), attempt=attempt, **values,
    )  # fmt: skip


def wait_for(what, seconds=60.0):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)
    return found


def seen_as(shell, handle, *states):
    def look():
        now = SLURM.state(host(), shell, handle)
        return now if now.state in states else None

    return wait_for(look)


def ended(shell, handle):
    return seen_as(shell, handle, "finished", "failed", "cancelled", "lost")


def log_of(launch, rank=0):
    path = Path(launch.log) / f"{rank}.log"
    return path.read_text() if path.exists() else ""


def holding(tmp_path, shell, name, gpus=4):
    launch = launch_of(tmp_path, "sleep", "120", run=name, gres=f"gpu:h100:{gpus}", gpus=gpus)
    handle = SLURM.launch(host(), shell, launch)
    seen_as(shell, handle, "running")
    return handle


# Probe


def test_free_gpus_are_found_as_the_cluster_spells_them(slurm):
    shell = Shell(**slurm.environment)
    verdict = probe(shell, Resources(chips=("h100",), gpus=4), {"h100": "h100"})
    assert (verdict.fit, verdict.reason) == ("now", "8 of 8 h100 free in gpu")
    assert verdict.placement == Placement("hpc", "h100", 4, 1, (), "gpu", "gpu:h100:4")


def test_what_no_node_has_is_told(slurm):
    shell = Shell(**slurm.environment)
    assert probe(shell, Resources(chips=("h200",), gpus=1)).reason.startswith(
        "needs h200, has h100"
    )
    eight = probe(shell, Resources(chips=("h100",), gpus=8), {"h100": "h100"})
    assert eight.reason == "needs 8 × h100 in one node, a node has at most 4"
    two = probe(shell, Resources(chips=("h100",), gpus=8, nodes=2), {"h100": "h100"})
    assert two.fit == "now"


def test_a_full_cluster_can_queue_and_says_who_holds_it_and_until_when(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    for name in ("a", "b"):
        holding(tmp_path, shell, name)
    verdict = probe(shell, Resources(chips=("h100",), gpus=2), {"h100": "h100"}, time="10")
    user = slurm.client("squeue", "-h", "-o", "%u").split()[0]
    assert (verdict.fit, verdict.holders, verdict.free) == ("queue", {user: 8}, {"h100": 0})
    assert verdict.reason == f"2 × h100 busy ({user}: 8), can queue in gpu"
    assert 0 < verdict.starts - time.time() <= 3700


def test_a_run_on_processors_goes_to_its_own_partition(slurm):
    shell = Shell(**slurm.environment)
    verdict = probe(shell, Resources(cpus=4), cpu_partitions=("cpu",))
    assert verdict.placement == Placement("hpc", None, 0, 1, (), "cpu", None)
    assert verdict.reason == "8 CPUs free in cpu"
    assert probe(shell, Resources(cpus=64)).fit == "no"


def test_a_misspelled_partition_is_told(slurm):
    verdict = probe(Shell(**slurm.environment), Resources(), partitions=("gpus",))
    assert verdict.reason == "no partition 'gpus', did you mean 'gpu'?"


def test_a_drained_node_is_not_counted_and_a_down_cluster_says_why(slurm):
    shell = Shell(**slurm.environment)
    wanted = Resources(chips=("h100",), gpus=4)
    try:
        slurm.client("scontrol", "update", "nodename=n1", "state=drain", "reason=bad disk")
        assert probe(shell, wanted, {"h100": "h100"}).reason == "4 of 8 h100 free in gpu"
        slurm.client(
            "scontrol", "update", "nodename=n2", "state=drain", "reason=a NodeName=x State=IDLE"
        )
        down = probe(shell, wanted, {"h100": "h100"})
        assert down.fit == "no"
        assert down.reason.startswith("nodes cannot be used: n1 idle+drain (bad disk [")
    finally:
        slurm.client("scontrol", "update", "nodename=n1,n2", "state=resume")


def test_a_users_own_options_change_nothing(slurm):
    spoiled = Shell(
        **slurm.environment, SQUEUE_FORMAT="%i", SINFO_FORMAT="%N", SLURM_TIME_FORMAT="relative",
        SBATCH_PARTITION="nowhere", SLURM_CLUSTERS="nowhere", SLURM_JOB_ID="1", SQUEUE_STATES="PD",
    )  # fmt: skip
    assert probe(spoiled, Resources(chips=("h100",)), {"h100": "h100"}).fit == "now"


def test_an_allocation_that_we_submit_from_changes_nothing(slurm, tmp_path):
    spoiled = Shell(
        **slurm.environment, SLURM_JOB_ID="1", SLURM_CPU_BIND="quiet,mask_cpu:0x1", SLURM_NTASKS="8",
        SLURM_CPUS_PER_TASK="1", SBATCH_PARTITION="nowhere", PMI_RANK="3", SLURM_EXPORT_ENV="NONE",
    )  # fmt: skip
    show = 'echo "$SLURM_CPUS_PER_TASK $SLURM_NTASKS ${PMI_RANK-none} ${SLURM_CPU_BIND-none} $SLURM_JOB_ID"'
    launch = launch_of(tmp_path, "sh", "-c", show, run="inside", cpus=2)
    handle = SLURM.launch(host(), spoiled, launch)
    assert ended(spoiled, handle).state == "finished"
    cpus, tasks, rank, bind, job = log_of(launch).split()
    assert (cpus, tasks, rank, job) == ("2", "1", "none", handle.values["job"])
    assert "0x1" not in bind.split(":")


def test_a_second_job_of_a_run_that_is_at_work_ends_at_once(slurm, tmp_path):
    """Whoever queued it: a lost answer, a person."""
    shell = Shell(**slurm.environment)
    launch = launch_of(tmp_path, "sh", "-c", "echo up; sleep 300", run="twin")
    handle = SLURM.launch(host(), shell, launch)
    wait_for(lambda: "up" in log_of(launch))
    twin = slurm.client("sbatch", "--parsable", f"{launch.folder}/job-1.sh").strip()
    said = Path(launch.log) / "slurm.log"
    wait_for(lambda: said.exists() and f"another job; job {twin} ends" in said.read_text())
    assert log_of(launch) == "up\n"
    assert SLURM.state(host(), shell, handle).state == "running"


def test_a_cluster_that_does_not_answer_is_unknown(tmp_path):
    said = "slurm_load_node error: Unable to contact slurm controller (connect failure)"
    path = faulty(tmp_path, "scontrol", f'echo "{said}" >&2; exit 1')
    verdict = probe(Shell(**path), Resources())
    assert (verdict.fit, verdict.reason) == ("unknown", said)


# Launch and state


def test_a_job_runs_with_its_gpus_in_its_folder_and_leaves_a_log(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    show = 'printf "%s\\n" "$CUDA_VISIBLE_DEVICES|$THESEUS_RUN|$THESEUS_PROCESS|${THESEUS_PROCESSES-one}|$1|$PWD"'
    odd = "a b'c\"d\\e $HOME `x` %j\n#y"
    launch = launch_of(tmp_path, "sh", "-c", show, "x", odd, gres="gpu:h100:2", gpus=2)
    handle = SLURM.launch(host(), shell, launch)
    assert ended(shell, handle).state == "finished"
    assert log_of(launch) == f"0,1|r1|0|one|{odd}|{launch.work}\n"


def test_the_job_carries_what_was_asked_for(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    launch = launch_of(
        tmp_path, "sleep", "60", cpus=3, memory=500 * 2**20, name='ev"il\n#SBATCH -p x', partition="gpu"
    )  # fmt: skip
    handle = SLURM.launch(host(time="30", extra=("--nice=7",)), shell, launch)
    shown = slurm.client("scontrol", "-o", "show", "job", handle.values["job"])
    for part in (
        "JobName=ev-il-SBATCH--p-x-r1-1 ", " Nice=7 ", " TimeLimit=00:30:00 ", "MinMemoryNode=500M",
        "CPUs/Task=3", "Comment=theseus r1 1 ", "TresPerNode=gres:gpu:h100:1", "Partition=gpu ",
        "Requeue=1", f"StdOut={launch.log}/slurm.log",
    ):  # fmt: skip
        assert part in shown, (part, shown)


@pytest.mark.parametrize("name", ["a b", 'a"=0"', "a'; echo x", "a\\=0", "ü # %j", "$HOME"])
def test_a_folder_of_any_name_will_do(slurm, tmp_path, name):
    shell = Shell(**slurm.environment)
    launch = launch_of(tmp_path / name, "sh", "-c", "echo fine; exit 4")
    seen = ended(shell, SLURM.launch(host(), shell, launch))
    assert (seen.state, seen.reason, log_of(launch)) == ("failed", "exit status 4", "fine\n")
    assert (Path(launch.log) / "slurm.log").exists()


def test_two_nodes_are_told_how_to_find_each_other(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    show = 'echo "$THESEUS_COORDINATOR $THESEUS_PROCESSES $THESEUS_PROCESS $SLURMD_NODENAME"'
    launch = launch_of(tmp_path, "sh", "-c", show, nodes=2, gres="gpu:h100:4", gpus=4)
    handle = SLURM.launch(host(), shell, launch)
    assert ended(shell, handle).state == "finished"
    port = 61440 + int(handle.values["job"]) % 4096
    assert log_of(launch, 0) == f"127.0.0.1:{port} 2 0 n1\n"
    assert log_of(launch, 1) == f"127.0.0.1:{port} 2 1 n2\n"


def test_one_worker_that_fails_ends_the_others(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    command = 'test "$THESEUS_PROCESS" = 0 && sleep 300; exit 9'
    launch = launch_of(tmp_path, "sh", "-c", command, nodes=2)
    seen = ended(shell, SLURM.launch(host(), shell, launch))
    assert seen.state == "failed"


def test_a_refused_job_says_what_slurm_said_and_may_be_submitted_again(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    with pytest.raises(LaunchError, match=r"(?s)SLURM refused the run: .*node configuration"):
        SLURM.launch(host(), shell, launch_of(tmp_path, "true", gres="gpu:h100:99"))
    assert (
        ended(shell, SLURM.launch(host(), shell, launch_of(tmp_path, "true"))).state == "finished"
    )


def test_a_work_folder_that_the_node_does_not_see_is_told(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    launch = launch_of(tmp_path, "true")
    Path(launch.work).rmdir()
    seen = ended(shell, SLURM.launch(host(), shell, launch))
    assert seen.reason == "the folder of its code cannot be entered"
    assert (
        "must be on a file system that all nodes share"
        in (Path(launch.log) / "slurm.log").read_text()
    )


def test_a_waiting_job_says_why_and_since_when_it_could_start(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    for name in ("a", "b"):
        holding(tmp_path, shell, name)
    handle = SLURM.launch(host(time="5"), shell, launch_of(tmp_path, "true"))
    waiting = wait_for(
        lambda: (now := SLURM.state(host(), shell, handle)).starts and now.reason and now
    )
    assert (waiting.state, waiting.reason) == ("queued", "Resources")
    assert waiting.starts > time.time()


# One job per attempt


def jobs(slurm):
    return slurm.client("squeue", "-h", "-t", "all", "-o", "%A %j").split()[1::2]


def test_many_submissions_of_one_attempt_are_one_job(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    launch = launch_of(tmp_path, "sleep", "60", run="many")
    with ThreadPoolExecutor(6) as pool:
        handles = list(pool.map(lambda _: SLURM.launch(host(), shell, launch), range(6)))
    assert len({handle.values["job"] for handle in handles}) == 1
    assert jobs(slurm).count("train-gpt-many-1") == 1


def test_the_next_attempt_is_another_job_and_adds_to_the_log(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    for attempt in (1, 2):
        launch = launch_of(tmp_path, "sh", "-c", f"echo {attempt}", run="next", attempt=attempt)
        assert ended(shell, SLURM.launch(host(), shell, launch)).state == "finished"
    assert log_of(launch) == "1\n2\n"


def faulty(tmp_path, name, text):
    """Put a program before SLURM's own, which it can call as `$real`."""
    real = shutil.which(name)
    program(tmp_path / "faulty", name, f"#!/bin/sh\nreal={real}\nhere={tmp_path}\n{text}\n")
    return {"PATH": f"{tmp_path}/faulty:{os.environ['PATH']}"}


def test_an_answer_that_got_lost_is_found_again(slurm, tmp_path):
    path = faulty(
        tmp_path, "sbatch", '"$real" "$@" >/dev/null; echo "sbatch: error: Batch job submission '
        'failed: Socket timed out on send/recv operation" >&2; exit 1',
    )  # fmt: skip
    launch = launch_of(tmp_path, "sleep", "60", run="lost")
    handle = SLURM.launch(host(), Shell(**slurm.environment, **path), launch)
    assert jobs(slurm).count("train-gpt-lost-1") == 1
    assert SLURM.launch(host(), Shell(**slurm.environment), launch) == handle


def test_a_launch_that_was_cut_off_is_found_by_the_next_one(slurm, tmp_path):
    # The whole launch is killed after SLURM has taken the job, before anything was written down.
    path = faulty(
        tmp_path,
        "sbatch",
        '"$real" "$@" >/dev/null; above=$(ps -o ppid= -p $PPID); kill -9 $(ps -o ppid= -p $above) $above $PPID',
    )
    launch = launch_of(tmp_path, "sleep", "60", run="cut")
    with pytest.raises(LaunchError):
        SLURM.launch(host(), Shell(**slurm.environment, **path), launch)
    SLURM.launch(host(), Shell(**slurm.environment), launch)
    assert jobs(slurm).count("train-gpt-cut-1") == 1


def test_a_queue_that_does_not_answer_is_no_reason_to_submit_again(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    launch = launch_of(tmp_path, "sleep", "60", run="mute")
    dead = faulty(tmp_path, "sbatch", '"$real" "$@" >/dev/null; exit 1')
    faulty(tmp_path, "squeue", 'echo "slurm_load_jobs error: Socket timed out" >&2; exit 1')
    for _ in range(2):
        with pytest.raises(LaunchError, match="Submitting again looks for it first"):
            SLURM.launch(host(), Shell(**slurm.environment, **dead), launch)
    assert jobs(slurm).count("train-gpt-mute-1") == 1
    SLURM.launch(host(), shell, launch)
    assert jobs(slurm).count("train-gpt-mute-1") == 1


def test_notices_around_the_number_do_no_harm(slurm, tmp_path):
    path = faulty(
        tmp_path, "sbatch", 'echo "Welcome to Stampede3"; echo "sbatch: note" >&2; "$real" "$@"; echo "5 jobs left"'
    )  # fmt: skip
    launch = launch_of(tmp_path, "true", run="notice")
    handle = SLURM.launch(host(), Shell(**slurm.environment, **path), launch)
    assert ended(Shell(**slurm.environment), handle).state == "finished"


# Cancel, requeue, time limit


def test_cancel_ends_the_job_and_all_its_processes(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    command = "sleep 300 & setsid sleep 301 & echo up; wait"
    launch = launch_of(tmp_path, "sh", "-c", command, run="cancel")
    handle = SLURM.launch(host(), shell, launch)
    wait_for(lambda: "up" in log_of(launch))
    seen = SLURM.cancel(host(), shell, handle)
    assert seen.state == "cancelled"
    assert not _marked("cancel/1/")
    assert probe(shell, Resources(chips=("h100",), gpus=8, nodes=2), {"h100": "h100"}).fit == "now"


def test_cancel_finds_and_ends_what_slurm_has_lost_track_of(slurm, tmp_path):
    """A process that has left its session and its parent outlives `scancel` without cgroups."""
    shell = Shell(**slurm.environment)
    command = "(trap '' TERM; setsid sleep 302 & ) & sleep 0.3; echo up; sleep 300"
    launch = launch_of(tmp_path, "sh", "-c", command, run="escape")
    handle = SLURM.launch(host(), shell, launch)
    wait_for(lambda: "up" in log_of(launch))
    stray = _marked("escape/1/")
    assert len(stray) > 1
    seen = SLURM.cancel(host(), shell, handle)
    assert (seen.state, seen.note) == ("cancelled", None)
    assert _marked("escape/1/") == []
    assert slurm.client("squeue", "-h").strip() == ""


def test_what_cancel_could_not_see_is_told(slurm, tmp_path):
    """Somebody else has the node at once."""
    shell = Shell(**slurm.environment)
    program(
        tmp_path / "bin", "srun", "#!/bin/sh\necho 'srun: error: Unable to allocate' >&2; exit 1\n"
    )
    handle = holding(tmp_path, shell, "a")
    other = Shell(PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}", **slurm.environment)
    seen = SLURM.cancel(host(), other, handle)
    assert seen.state == "cancelled"
    assert "could not be seen (Unable to allocate)" in seen.note


def _marked(mark):
    return [
        p
        for p in Path("/proc").glob("[0-9]*/environ")
        if f"THESEUS_LAUNCH={mark}".encode() in _read(p)
    ]


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_cancel_of_a_waiting_job_and_of_a_finished_one(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    for name in ("a", "b"):
        holding(tmp_path, shell, name)
    waiting = SLURM.launch(host(), shell, launch_of(tmp_path, "true", run="waiting"))
    assert SLURM.cancel(host(), shell, waiting).state == "cancelled"
    slurm.empty()
    done = SLURM.launch(host(), shell, launch_of(tmp_path, "true", run="done"))
    ended(shell, done)
    assert SLURM.cancel(host(), shell, done).state == "finished"


def test_a_requeued_job_waits_runs_again_and_adds_to_its_log(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    command = "echo up; test -f again && exit 0; touch again; sleep 300"
    launch = launch_of(tmp_path, "sh", "-c", command, run="requeue")
    handle = SLURM.launch(host(), shell, launch)
    wait_for(lambda: "up" in log_of(launch))
    slurm.client("scontrol", "requeue", handle.values["job"])
    seen_as(shell, handle, "queued")
    assert ended(shell, handle).state == "finished"
    assert log_of(launch).replace("Terminated\n", "") == "up\nup\n"


@pytest.mark.slow
def test_before_the_time_limit_the_run_is_asked_to_save_and_queues_again(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    command = (
        "test -f saved && { echo resumed; exit 0; }; "
        'trap "touch saved; cat ../runs/limit/stop; exit 143" TERM; echo up; '
        "while :; do sleep 0.2; done"
    )
    launch = launch_of(tmp_path, "sh", "-c", command, run="limit")
    handle = SLURM.launch(host(time="1"), shell, launch)
    seen_as(shell, handle, "running")
    wait_for(lambda: "requeue" in log_of(launch), 120)
    seen = wait_for(lambda: "resumed" in log_of(launch) and ended(shell, handle), 120)
    assert seen.state == "finished"
    assert log_of(launch).replace("Terminated\n", "") == "up\nrequeue\nresumed\n"


def test_a_job_that_nobody_knows_is_lost_and_not_finished(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    handle = SLURM.launch(host(), shell, launch_of(tmp_path, "true", run="gone"))
    ended(shell, handle)
    unknown = type(handle)("slurm", {**handle.values, "job": "99999"})
    assert SLURM.state(host(), shell, unknown).state == "lost"


def test_a_cluster_that_does_not_answer_leaves_the_state_unknown(slurm, tmp_path):
    shell = Shell(**slurm.environment)
    handle = SLURM.launch(host(), shell, launch_of(tmp_path, "sleep", "60", run="quiet"))
    for text in (
        'echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1',
        "exit 0",
    ):
        path = faulty(tmp_path, "squeue", text)
        faulty(tmp_path, "scontrol", "exit 1")
        assert SLURM.state(host(), Shell(**slurm.environment, **path), handle).state == "unknown"
