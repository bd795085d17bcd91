"""What became of a job, from answers that are late, partial, contradictory or missing."""

import pytest

from theseus.dispatch.providers.programs import Report, Section
from theseus.dispatch.providers.slurm_parse import SEPARATOR
from theseus.dispatch.providers.slurm_seen import seen

ABSENT = ("slurm_load_jobs error: Invalid job id specified", 1)
SILENT = ("slurm_load_jobs error: Socket timed out on send/recv operation", 1)
DISABLED = ("Slurm accounting storage is disabled", 1)
EMPTY = ("", 0)


def row(state, reason="None", starts="N/A", job="7"):
    return (SEPARATOR.join((job, state, reason, starts)), 0)


def record(state, **more):
    fields = " ".join(f"{key}={value}" for key, value in more.items())
    return (f"JobId=7 JobName=x y JobState={state} Reason=None {fields}", 0)


def look(queue=ABSENT, accounting=DISABLED, controller=ABSENT, ours=None, stop=None):
    answers = {"queue": queue, "accounting": accounting, "record": controller}
    sections = [Section(name, *answer) for name, answer in answers.items() if answer]
    sections += [Section("exit", ours, 0)] if ours else []
    sections += [Section("stop", stop, 0)] if stop else []
    return seen(Report(tuple(sections), ""), "7")


def test_our_own_record_is_believed_first():
    ended = "status=0\nhow=ended\njob=7"
    assert look(row("RUNNING"), ("7|RUNNING|0:0", 0), ours=ended).state == "finished"
    failed = look(ours="status=3\nhow=ended\njob=7")
    assert (failed.state, failed.reason) == ("failed", "exit status 3")
    assert look(ours="status=143\nhow=ended\njob=7", stop="cancel\n").state == "cancelled"


def test_a_job_that_queues_again_has_not_ended_whatever_it_wrote_before():
    requeued = "status=143\nhow=requeued\njob=7"
    assert look(row("PENDING", "BeginTime"), ours=requeued).state == "queued"
    assert look(row("RUNNING"), ours=requeued).state == "running"


def test_a_waiting_job_says_why_and_since_when():
    waiting = look(row("PENDING", "Priority", "1796090520"))
    assert (waiting.state, waiting.reason, waiting.starts) == ("queued", "Priority", 1796090520)


def test_preempted_is_waiting_while_the_queue_has_it():
    accounting = ("7|PREEMPTED|0:0", 0)
    assert look(row("PREEMPTED"), accounting).state == "queued"
    assert look(row("PENDING"), accounting).state == "queued"
    gone = look(ABSENT, accounting)
    assert (gone.state, gone.reason) == ("lost", "it was preempted and has not been queued again")


def test_the_newest_row_counts_when_a_job_ran_several_times():
    text = "7|PREEMPTED|0:0\n7.batch|CANCELLED|0:15\n7|REQUEUED|0:0\n7|COMPLETED|0:0\n"
    assert look(ABSENT, (text, 0)).state == "finished"


@pytest.mark.parametrize(
    ("state", "want", "reason"),
    [
        ("CANCELLED by 1000", "cancelled", "cancelled by user 1000"),
        ("OUT_OF_MEMORY", "failed", "it used more memory than it had asked for"),
        ("TIMEOUT", "failed", "its time limit was reached"),
        ("NODE_FAIL", "failed", "a node failed"),
        ("FAILED", "failed", "failed"),
        ("COMPLETED", "finished", None),
    ],
)
def test_the_accounting_says_how_it_ended(state, want, reason):
    text = f"7|{state}|0:0\n7.batch|{state}|0:0\n7.0|CANCELLED by 5|0:9\n"
    found = look(ABSENT, (text, 0))
    assert (found.state, found.reason) == (want, reason)
    assert look(SILENT, (text, 0)).state == want


@pytest.mark.parametrize("accounting", [DISABLED, EMPTY, ("sacct: command not found", 127)])
def test_without_accounting_the_controller_says_it_for_some_minutes(accounting):
    assert look(ABSENT, accounting, record("COMPLETED")).state == "finished"
    assert look(ABSENT, accounting, record("TIMEOUT")).reason == "its time limit was reached"


def test_a_job_that_everybody_denies_is_lost_and_not_finished():
    assert look(ABSENT, DISABLED, ABSENT).state == "lost"
    assert look(EMPTY, EMPTY, ABSENT).state == "lost"


@pytest.mark.parametrize(
    "answers",
    [
        {"queue": SILENT, "controller": SILENT},
        {"queue": None, "accounting": None, "controller": None},
        {"queue": ("", 124)},
        {"queue": ABSENT, "accounting": ("sacct: error: slurmdbd: Too wide of a date range", 1)},
        {"queue": ABSENT, "controller": ("", 124)},
        {"queue": row("BRANDNEW")},
        {"queue": row("REVOKED")},
        {"queue": ABSENT, "accounting": ("7|RUNNING|0:0", 0)},
    ],
)
def test_a_question_without_an_answer_is_unknown(answers):
    assert look(**answers).state == "unknown"


def test_a_timeout_that_says_nothing_but_the_cluster_is_no_answer_about_the_job():
    # squeue may time out with status 0; the job is then not called finished by anybody.
    assert look(("CLUSTER: amarel", 0), EMPTY, SILENT).state == "unknown"


def test_noise_around_the_rows_does_no_harm():
    noisy = f"squeue: error: Invalid user for SlurmUser slurm, ignored\n{row('RUNNING')[0]}"
    assert look((noisy, 0)).state == "running"


def test_a_record_of_another_job_is_not_this_ones():
    assert look(row("RUNNING", job="71")).state == "lost"


def test_ended_by_us_is_cancelled_even_when_nobody_remembers():
    assert look(ours="status=143\nhow=terminated\njob=7", stop="cancel\n").state == "cancelled"
