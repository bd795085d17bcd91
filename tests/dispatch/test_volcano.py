"""Volcano by a fake `kubectl`: what fits, one job per attempt, states from pods, cancel, files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dispatch.fakes import Kubectl, Shell
from theseus.dispatch.inventory import Cluster, Host, Inventory, VolcanoSettings
from theseus.dispatch.providers import volcano_seen
from theseus.dispatch.providers.base import Launch, LaunchError, Placement
from theseus.dispatch.providers.volcano import VolcanoProvider
from theseus.dispatch.providers.volcano_pod import open_pod, pod_name
from theseus.dispatch.transport import TransportError
from theseus.dispatch.transport.shell import Shell as Transport
from theseus.hardware.resources import Resources

VOLCANO = VolcanoProvider()
HERE = Shell()
QUEUE = "queues.scheduling.volcano.sh.research"
JOB = "jobs.batch.volcano.sh.theseus-r1-1"


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    return Kubectl(tmp_path, monkeypatch)


def host(**more):
    settings = VolcanoSettings(
        image="python", pvc_name="shared", queue="research", num_nodes=2, gpus_per_node=8, **more
    )
    lab = Cluster("lab", "/data/root", "/data/work")
    return Host("k8s", "volcano", lab, chips={"h100": 16}, volcano=settings)


def probe(*chips, gpus=None, nodes=1, of=None):
    of = of or host()
    inventory = Inventory({"k8s": of}, {}, ("k8s",))
    return VOLCANO.probe(of, HERE, Resources(chips=chips, gpus=gpus, nodes=nodes), inventory)


def queue(state="Open", used=0):
    return {"status": {"state": state, "allocated": {"nvidia.com/gpu": used, "cpu": "3500m"}}}


def launch(tmp_path, nodes=1, attempt=1):
    folder = tmp_path / "runs" / "r1"
    folder.mkdir(parents=True, exist_ok=True)
    placement = Placement("k8s", "h100", 8, nodes)
    return Launch(
        "r1", "gpt", str(folder), str(tmp_path), ("true",), placement, None, None, str(folder / "log"), attempt
    )  # fmt: skip


def pods(*phases, **status):
    return {"items": [{"status": {"phase": phase, **status}} for phase in phases]}


def code(number, **more):
    return [{"state": {"terminated": {"exitCode": number, **more}}}]


# Probe


def test_a_queue_with_room_takes_it_now(cluster):
    cluster.put(QUEUE, queue(used="4"))
    verdict = probe("h100", gpus=8)
    assert (verdict.fit, verdict.reason) == ("now", "12 of 16 h100 free in queue 'research'")
    assert verdict.placement == Placement("k8s", "h100", 8, 1)


def test_a_full_queue_can_be_waited_for(cluster):
    cluster.put(QUEUE, queue(used=12))
    verdict = probe("h100", gpus=16, nodes=2)
    assert (verdict.fit, verdict.reason) == ("queue", "12 of 16 h100 busy, can queue in 'research'")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"gpus": 8, "chips": ["l4"]}, "needs l4, has h100"),
        ({"gpus": 16, "chips": ["h100"]}, "needs 16 × h100 in one node, a node has 8"),
        ({"gpus": 24, "chips": ["h100"], "nodes": 3}, "needs 3 nodes, has 2"),
    ],
)
def test_what_the_pool_does_not_have_is_told(cluster, asked, reason):
    cluster.put(QUEUE, queue())
    verdict = probe(*asked.pop("chips"), **asked)
    assert (verdict.fit, verdict.reason) == ("no", reason)


def test_a_closed_or_missing_queue_is_told(cluster):
    assert probe("h100").reason == "there is no queue 'research'"
    cluster.put(QUEUE, queue("Closed"))
    assert probe("h100").reason == "queue 'research' is closed"


def test_a_queue_that_may_not_be_read_can_still_be_used(cluster):
    cluster.put("fail.get", 'Error from server (Forbidden): queues "research" is forbidden')
    assert probe("h100").fit == "queue"


def test_a_cluster_that_does_not_answer_is_unknown(cluster):
    cluster.put("fail.get", "Unable to connect to the server: dial tcp: i/o timeout")
    verdict = probe("h100")
    assert (verdict.fit, verdict.reason) == (
        "unknown", "Unable to connect to the server: dial tcp: i/o timeout"
    )  # fmt: skip


def test_the_settings_say_which_cluster_is_meant(cluster, monkeypatch):
    monkeypatch.setenv("CLUSTERS", "/etc/clusters")
    probe("h100", of=host(context="lab-1", namespace="team", kubeconfig="$CLUSTERS/lab"))
    call = cluster.calls()[0]
    assert call[:3] == ["--namespace=team", "--context=lab-1", "--kubeconfig=/etc/clusters/lab"]


def test_without_kubectl_the_message_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match="host 'k8s': kubectl is not installed here"):
        probe("h100")


# Launch


def test_an_attempt_is_created_once(cluster, tmp_path):
    first = VOLCANO.launch(host(), HERE, launch(tmp_path))
    again = VOLCANO.launch(host(), HERE, launch(tmp_path))
    other = VOLCANO.launch(host(), HERE, launch(tmp_path, attempt=2))
    assert first == again != other
    assert cluster.jobs() == [JOB, "jobs.batch.volcano.sh.theseus-r1-2"]


def test_an_answer_that_got_lost_is_looked_up(cluster, tmp_path):
    cluster.put("fail.after-create", "Unable to connect to the server: EOF")
    assert VOLCANO.launch(host(), HERE, launch(tmp_path)).values["job"] == "theseus-r1-1"


def test_a_refused_job_says_why(cluster, tmp_path):
    cluster.put("fail.create", "Error from server: admission webhook denied the request: no queue")
    with pytest.raises(LaunchError, match=r"Kubernetes refused the run: .* no queue"):
        VOLCANO.launch(host(), HERE, launch(tmp_path))


def test_a_cluster_that_is_gone_leaves_it_open_whether_it_was_created(cluster, tmp_path):
    for verb in ("create", "get"):
        cluster.put(f"fail.{verb}", "Unable to connect to the server")
    with pytest.raises(LaunchError, match="Submitting again looks for it first"):
        VOLCANO.launch(host(), HERE, launch(tmp_path))


# State


def state(cluster, tmp_path, phase, listed, nodes=1):
    handle = VOLCANO.launch(host(), HERE, launch(tmp_path, nodes))
    cluster.put(JOB, {"status": {"state": {"phase": phase}}})
    cluster.put("pods", listed)
    return VOLCANO.state(host(), HERE, handle)


@pytest.mark.parametrize(
    ("phase", "listed", "nodes", "want"),
    [
        ("Running", pods("Running", "Running"), 2, "running"),
        ("Running", pods("Running", "Pending"), 2, "queued"),  # it is called Running too early
        ("Running", pods("Running"), 2, "queued"),
        ("Pending", pods("Succeeded"), 1, "finished"),  # and stays Pending afterwards
        ("Completed", pods("Succeeded", "Succeeded"), 2, "finished"),
        ("Running", pods("Failed", containerStatuses=code(3)), 1, "failed"),
        ("Restarting", pods("Failed", containerStatuses=code(143)), 1, "queued"),
        ("Running", pods("Unknown"), 1, "unknown"),
        ("Pending", pods(), 1, "queued"),
        ("", pods(), 1, "queued"),
        ("Completed", pods(), 1, "finished"),
        ("Terminated", pods(), 1, "failed"),
        ("Aborted", pods(), 1, "cancelled"),
    ],
)
def test_pods_say_more_than_the_phase(cluster, tmp_path, phase, listed, nodes, want):
    assert state(cluster, tmp_path, phase, listed, nodes).state == want


def test_a_failed_pod_says_why(cluster, tmp_path):
    failed = state(cluster, tmp_path, "Running", pods("Failed", containerStatuses=code(3)))
    assert failed.reason == "exit status 3"
    killed = code(137, reason="OOMKilled")
    failed = state(cluster, tmp_path, "Running", pods("Failed", containerStatuses=killed))
    assert failed.reason == "it used more memory than its pod may have"


def test_a_waiting_pod_says_why(cluster, tmp_path):
    waits = [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes have 8 GPUs"}]
    waiting = state(cluster, tmp_path, "Inqueue", pods("Pending", conditions=waits))
    assert (waiting.state, waiting.reason) == ("queued", "0/3 nodes have 8 GPUs")
    image = [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]
    waiting = state(cluster, tmp_path, "Running", pods("Pending", containerStatuses=image))
    assert waiting.reason == "ImagePullBackOff: no such image"


@pytest.mark.parametrize(
    ("record", "want"),
    [("status=0\nattempt=1\n", "finished"), ("status=4\nattempt=1\n", "failed"), ("", "lost")],
)
def test_a_job_that_was_swept_away_has_left_a_record(cluster, tmp_path, record, want):
    handle = VOLCANO.launch(host(), HERE, launch(tmp_path))
    cluster.drop(JOB)
    if record:
        (Path(handle.values["folder"]) / "exit").write_text(record)
    assert VOLCANO.state(host(), HERE, handle).state == want


def test_a_cluster_that_does_not_answer_leaves_the_state_unknown(cluster, tmp_path):
    handle = VOLCANO.launch(host(), HERE, launch(tmp_path))
    cluster.put("fail.get", "Unable to connect to the server")
    assert VOLCANO.state(host(), HERE, handle).state == "unknown"


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["items", "status", "state", "phase", "containerStatuses", "waiting", "conditions"]), inner, max_size=4
            )
        ),
    )
)  # fmt: skip
def test_no_answer_is_an_error(value):
    value = value if isinstance(value, dict) else {"items": value, "status": value}
    volcano_seen.seen(volcano_seen.phase_of(value), volcano_seen.pods_of(value), 1)


# Cancel


def test_cancel_deletes_the_job_and_tells_the_worker(cluster, tmp_path):
    handle = VOLCANO.launch(host(), HERE, launch(tmp_path))
    assert VOLCANO.cancel(host(), HERE, handle).state == "cancelled"
    assert cluster.jobs() == []
    assert (Path(handle.values["folder"]) / "stop").read_text() == "cancel\n"
    assert VOLCANO.state(host(), HERE, handle).state == "cancelled"


def test_cancel_says_which_pods_are_left(cluster, tmp_path):
    handle = VOLCANO.launch(host(), HERE, launch(tmp_path))
    cluster.put(JOB, {"status": {"state": {"phase": "Running"}}})
    cluster.put("pods", pods("Running"))
    left = VOLCANO.cancel(host(), HERE, handle)
    assert left.state == "running"
    assert left.reason.startswith("not gone yet: ")


def test_what_has_ended_is_not_cancelled_any_more(cluster, tmp_path):
    handle = VOLCANO.launch(host(), HERE, launch(tmp_path))
    cluster.put(JOB, {"status": {"state": {"phase": "Completed"}}})
    cluster.put("pods", pods("Succeeded"))
    assert VOLCANO.cancel(host(), HERE, handle).state == "finished"
    assert cluster.jobs() == [JOB]


# The volume


def test_files_are_reached_through_a_pod_that_is_made_once(cluster, tmp_path):
    transport = Transport("k8s", lambda timeout: open_pod(host(), timeout))
    assert transport.run('echo "$1"', "a b'c").text == "a b'c\n"
    transport.put(b"content", str(tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == b"content"
    again = Transport("k8s", lambda timeout: open_pod(host(), timeout))
    assert again.run("exit 3").status == 3
    assert sum("create" in call for call in cluster.calls()) == 1


def test_a_pod_that_has_ended_is_made_anew(cluster):
    cluster.put(f"pod.{pod_name(host())}", {"status": {"phase": "Succeeded"}})
    transport = Transport("k8s", lambda timeout: open_pod(host(), timeout))
    assert transport.run("echo up").text == "up\n"


def test_a_pod_that_does_not_run_is_told(cluster):
    cluster.put(f"pod.{pod_name(host())}", {"status": {"phase": "Pending"}})
    cluster.put("fail.wait", "error: timed out waiting for the condition on pods/x")
    with pytest.raises(TransportError, match="the pod for files does not run"):
        open_pod(host(), 1)
