"""The manifest of a Volcano job: what the API server accepts, and what a run needs."""

import json
import os
import re
import signal
import subprocess
import time
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from theseus.dispatch.inventory import VolcanoSettings
from theseus.dispatch.providers.base import Launch, Placement
from theseus.dispatch.providers.volcano_manifest import files_pod_manifest, job_manifest, job_name

HERE = Path(__file__).parent


def strict(schema):
    """Return a schema that knows nothing but what it names, as `kubectl create` warns about."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    free = made.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in made
    if isinstance(made.get("properties"), dict) and made.get("type") == "object" and not free:
        made["additionalProperties"] = False
    if made.pop("x-kubernetes-int-or-string", False):
        made.pop("type", None)
    return made


@pytest.fixture(scope="module")
def accepts():
    text = (HERE / "cases" / "volcano_jobs_crd.yaml").read_text("utf-8")
    definition = yaml.load(text, yaml.CSafeLoader)
    (version,) = definition["spec"]["versions"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    return jsonschema.Draft7Validator(schema).validate


PLAIN = VolcanoSettings(image="python:3.12", pvc_name="shared")
FULL = VolcanoSettings(
    image="registry/jax:1",
    pvc_name="shared",
    pvc_mount_path="/data",
    namespace="lab",
    queue="research",
    num_nodes=4,
    gpus_per_node=8,
    gpu_resource_key="nvidia.com/h100",
    cpu="64",
    memory="512Gi",
    shm_size="64Gi",
    service_account="trainer",
    priority_class="high",
    node_selector={"pool": "h100"},
    tolerations=({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},),
    labels={"team": "a"},
    rdma={"rdma/ib": 8},
)


def launch(nodes=1, gpus=8, command=("python", "-m", "worker"), **more):
    values = {"cpus": None, "memory": None, **more}
    return Launch(
        "3f9a2c", "train gpt", "/data/runs/x", "/data/work/y", command,
        Placement("k8s", "h100" if gpus else None, gpus, nodes), log="/data/runs/x/log", **values,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "manifest"),
    [
        ("volcano_one_node", job_manifest(launch(), PLAIN)),
        ("volcano_two_nodes", job_manifest(launch(2), FULL)),
    ],
)
def test_the_manifest_is_the_one_that_was_agreed_on(name, manifest):
    (container,) = manifest["spec"]["tasks"][0]["template"]["spec"]["containers"]
    program = container["command"][2]
    ours = files("theseus.dispatch.providers").joinpath("sh/volcano_pod.sh").read_text("utf-8")
    assert unescaped(program) == ours
    container["command"][2] = "<volcano_pod.sh>"
    golden = HERE / "golden" / f"{name}.json"
    assert json.dumps(manifest, indent=1) + "\n" == golden.read_text("utf-8")


def unescaped(text):
    """Return what Kubernetes makes of a container's command."""
    return re.sub(r"\$\$", "$", text)


@pytest.mark.parametrize("settings", [PLAIN, FULL], ids=["plain", "full"])
@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("gpus", [0, 8])
def test_the_api_server_accepts_it(accepts, settings, nodes, gpus):
    accepts(job_manifest(launch(nodes, gpus, cpus=4, memory=2**30), settings))


def test_a_misspelled_field_would_be_noticed(accepts):
    manifest = job_manifest(launch(), PLAIN)
    manifest["spec"]["minAvailabel"] = 1
    with pytest.raises(jsonschema.ValidationError, match="minAvailabel"):
        accepts(manifest)


def pod(manifest):
    return manifest["spec"]["tasks"][0]["template"]["spec"]


def test_all_pods_start_together_or_none():
    spec = job_manifest(launch(3), FULL)["spec"]
    assert (spec["minAvailable"], spec["tasks"][0]["replicas"], spec["queue"]) == (3, 3, "research")


def test_pods_are_on_nodes_of_their_own_and_know_the_first():
    manifest = job_manifest(launch(2), FULL)
    (apart,) = pod(manifest)["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    labels = manifest["spec"]["tasks"][0]["template"]["metadata"]["labels"]
    assert apart["labelSelector"]["matchLabels"].items() <= labels.items()
    env = {one["name"]: one["value"] for one in pod(manifest)["containers"][0]["env"]}
    assert env["THESEUS_COORDINATOR"] == "theseus-3f9a2c-1-worker-0.theseus-3f9a2c-1:61440"
    assert env["THESEUS_PROCESSES"] == "2"


def test_a_run_on_processors_asks_for_no_gpu_and_sees_none():
    (container,) = pod(job_manifest(launch(gpus=0), FULL))["containers"]
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    assert {"name": "CUDA_VISIBLE_DEVICES", "value": ""} in container["env"]


def test_what_the_run_asks_for_comes_before_the_hosts_own_amounts():
    asked = launch(cpus=4, memory=3 * 2**30 + 1)
    (container,) = pod(job_manifest(asked, FULL))["containers"]
    assert container["resources"]["requests"]["cpu"] == "4"
    assert container["resources"]["requests"]["memory"] == "3073Mi"


@given(st.text(), st.integers(1, 999))
def test_a_job_name_is_one_that_kubernetes_takes(run, attempt):
    name = job_name(run, attempt)
    pod_name = f"{name}-worker-99"
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name)
    assert len(pod_name) <= 63


@given(st.lists(st.text(st.characters(exclude_characters="\0")), min_size=1, max_size=3))
def test_kubernetes_changes_nothing_in_the_command(command):
    (container,) = pod(job_manifest(launch(command=tuple(command)), PLAIN))["containers"]
    expanded = [expand(one, {"HOME": "/root", "a": "b"}) for one in container["command"]]
    assert expanded[8:] == command


def expand(text, variables):
    """Do as Kubernetes does: `$(NAME)` is replaced when there is such a variable, `$$` is `$`."""
    made, place = "", 0
    while place < len(text):
        if text[place] == "$" and place + 1 < len(text):
            following = text[place + 1]
            if following == "$":
                made, place = made + "$", place + 2
                continue
            end = text.find(")", place)
            if following == "(" and end > 0 and text[place + 2 : end] in variables:
                made, place = made + variables[text[place + 2 : end]], end + 1
                continue
        made, place = made + text[place], place + 1
    return made


def test_the_pod_for_files_holds_the_volume_and_ends_by_itself():
    spec = files_pod_manifest("theseus-files-x", FULL)["spec"]
    assert spec["volumes"][0]["persistentVolumeClaim"] == {"claimName": "shared"}
    assert spec["containers"][0]["volumeMounts"] == [{"name": "files", "mountPath": "/data"}]
    assert spec["activeDeadlineSeconds"] > 0
    assert "nvidia.com/h100" not in str(spec)


# The program in the pod


def start(tmp_path, *command, rank=0, attempt=1):
    program = files("theseus.dispatch.providers").joinpath("sh/volcano_pod.sh").read_text("utf-8")
    folder, work = tmp_path / "run", tmp_path / "work"
    folder.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    return subprocess.Popen(
        ["/bin/sh", "-c", program, "theseus", folder, work, folder / "log", str(attempt), *command],
        env=dict(os.environ, VC_TASK_INDEX=str(rank)),
    )


def exit_of(tmp_path):
    path = tmp_path / "run" / "exit"
    lines = path.read_text().splitlines() if path.exists() else []
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def test_each_worker_has_its_log_and_the_first_says_how_it_ended(tmp_path):
    for rank in (1, 0):
        show = 'echo "$THESEUS_PROCESS in $PWD"'
        assert start(tmp_path, "sh", "-c", show, rank=rank).wait() == 0
        log = tmp_path / "run" / "log" / f"{rank}.log"
        assert log.read_text() == f"{rank} in {tmp_path}/work\n"
        assert bool(exit_of(tmp_path)) == (rank == 0)
    assert exit_of(tmp_path)["status"] == "0"


def test_the_worker_that_fails_first_is_the_one_that_is_told(tmp_path):
    assert start(tmp_path, "sh", "-c", "exit 7", rank=1).wait() == 7
    told = exit_of(tmp_path)
    assert (told["status"], told["process"]) == ("7", "1")


def test_a_pod_that_is_ended_tells_its_worker_and_waits_for_it(tmp_path):
    command = 'trap "echo saved; exit 5" TERM; echo up; while :; do sleep 0.1; done'
    process = start(tmp_path, "sh", "-c", command)
    log = tmp_path / "run" / "log" / "0.log"
    while not (log.exists() and "up" in log.read_text()):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 5
    assert "saved" in log.read_text()
    assert exit_of(tmp_path)["how"] == "terminated"


def test_a_volume_without_the_code_is_told(tmp_path):
    (tmp_path / "run").mkdir()
    program = files("theseus.dispatch.providers").joinpath("sh/volcano_pod.sh").read_text("utf-8")
    folder = tmp_path / "run"
    done = subprocess.run(
        ["/bin/sh", "-c", program, "theseus", folder, tmp_path / "work", folder / "log", "1", "true"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 72
    assert "the volume has no" in done.stderr
