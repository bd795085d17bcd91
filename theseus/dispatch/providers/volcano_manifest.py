"""Write the manifest of a Volcano job, and of the pod that reaches its volume: pure functions.

No secret is in a manifest: whoever may list jobs can read it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from theseus.dispatch.inventory import VolcanoSettings
from theseus.dispatch.providers.base import COORDINATOR, PROCESSES, RUN, Launch

JOB_NAME_LABEL = "volcano.sh/job-name"  # Volcano's own, on every pod of a job
RUN_LABEL = "theseus/run"
TASK = "worker"
PORT = 61440  # of process 0, inside its own pod: nobody else listens there
_VOLUME = "files"
_SAVE_SECONDS = 120  # that a pod has to save its checkpoint when it is evicted or cancelled
_KEPT_SECONDS = 7 * 24 * 3600


def job_name(run_id: str, attempt: int) -> str:
    """Return the name of the job for an attempt: the same one cannot be made twice."""
    safe = re.sub(r"[^a-z0-9-]+", "-", run_id.lower()).strip("-")[:32]
    return f"theseus-{safe}-{attempt}"


def job_manifest(launch: Launch, settings: VolcanoSettings) -> dict[str, Any]:
    """Return the job: all its pods start together or none does, each on a node of its own."""
    name = job_name(launch.run_id, launch.attempt)
    nodes = launch.placement.nodes
    label = {RUN_LABEL: name}
    labels = {**dict(settings.labels), **label}
    policies = [
        {"event": "PodEvicted", "action": "RestartJob"},  # it goes on from its last checkpoint
        {"event": "PodFailed", "action": "TerminateJob"},
        {"event": "TaskCompleted", "action": "CompleteJob"},
    ]
    spec: dict[str, Any] = {
        "schedulerName": "volcano",
        "queue": settings.queue,
        "minAvailable": nodes,
        "maxRetry": 10,
        "ttlSecondsAfterFinished": _KEPT_SECONDS,
        "plugins": {"env": [], "svc": ["--publish-not-ready-addresses=true"]},
        "policies": policies,
        "tasks": [
            {
                "name": TASK,
                "replicas": nodes,
                "template": {
                    "metadata": {"labels": labels},
                    "spec": _pod(launch, settings, name, label),
                },
            }
        ],
    }
    if settings.priority_class:
        spec["priorityClassName"] = settings.priority_class
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": settings.namespace,
            "labels": labels,
            "annotations": {"theseus/name": launch.name, "theseus/folder": launch.folder},
        },
        "spec": spec,
    }


def files_pod_manifest(name: str, settings: VolcanoSettings) -> dict[str, Any]:
    """Return a small pod that holds the volume, for files and logs; it ends after a day."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": settings.namespace,
            "labels": {**dict(settings.labels), "theseus/files": name},
        },
        "spec": {
            **_placed(settings),
            "restartPolicy": "Never",
            "activeDeadlineSeconds": 24 * 3600,
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": _VOLUME,
                    "image": settings.image,
                    "command": ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 86400 & wait"],
                    "resources": {
                        "requests": {"cpu": "100m", "memory": "256Mi"},
                        "limits": {"memory": "2Gi"},
                    },
                    "volumeMounts": [_mount(settings)],
                }
            ],
            "volumes": [_claim(settings)],
        },
    }


def _pod(
    launch: Launch, settings: VolcanoSettings, name: str, label: Mapping[str, str]
) -> dict[str, Any]:
    volumes, mounts = [_claim(settings)], [_mount(settings)]
    if settings.shm_size:
        shared = {"medium": "Memory", "sizeLimit": settings.shm_size}
        volumes.append({"name": "shm", "emptyDir": shared})
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108
    program = files("theseus.dispatch.providers").joinpath("sh/volcano_pod.sh").read_text("utf-8")
    arguments = [launch.folder, launch.work, launch.log, str(launch.attempt), *launch.command]
    resources = _resources(launch, settings)
    container: dict[str, Any] = {
        "name": TASK,
        "image": settings.image,
        # Kubernetes would replace a `$(NAME)`, and reads `$$` as `$`.
        "command": ["/bin/sh", "-c", *(_literal(one) for one in (program, "theseus", *arguments))],
        "env": [{"name": key, "value": value} for key, value in _environment(launch, name).items()],
        "resources": {"requests": resources, "limits": resources},
        "volumeMounts": mounts,
    }
    if settings.rdma:
        # Registering memory with the network card needs memory that may be locked.
        container["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}}
    pod = {
        **_placed(settings),
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _SAVE_SECONDS,
        "containers": [container],
        "volumes": volumes,
    }
    if settings.priority_class:
        pod["priorityClassName"] = settings.priority_class
    if launch.placement.nodes > 1:
        apart = {
            "labelSelector": {"matchLabels": dict(label)},
            "topologyKey": "kubernetes.io/hostname",
        }
        pod["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
        }
    return pod


def _environment(launch: Launch, name: str) -> dict[str, str]:
    found = {RUN: launch.run_id, "THESEUS_LAUNCH": f"{launch.run_id}/{launch.attempt}/"}
    if launch.placement.nodes > 1:
        # The svc plugin gives every pod this name, before it is ready.
        found[COORDINATOR] = f"{name}-{TASK}-0.{name}:{PORT}"
        found[PROCESSES] = str(launch.placement.nodes)
    if not launch.placement.gpus_per_node:
        found["CUDA_VISIBLE_DEVICES"] = ""
    return found


def _resources(launch: Launch, settings: VolcanoSettings) -> dict[str, str]:
    found: dict[str, str] = {}
    if launch.cpus or settings.cpu:
        found["cpu"] = str(launch.cpus or settings.cpu)
    if launch.memory or settings.memory:
        found["memory"] = (
            f"{-(-launch.memory // 2**20)}Mi" if launch.memory else str(settings.memory)
        )
    if launch.placement.gpus_per_node:
        found[settings.gpu_resource_key] = str(launch.placement.gpus_per_node)
        found |= {name: str(count) for name, count in settings.rdma.items()}
    return found


def _placed(settings: VolcanoSettings) -> dict[str, Any]:
    """Return what says on which nodes a pod may be."""
    found: dict[str, Any] = {}
    if settings.service_account:
        found["serviceAccountName"] = settings.service_account
    if settings.node_selector:
        found["nodeSelector"] = dict(settings.node_selector)
    if settings.tolerations:
        found["tolerations"] = [dict(one) for one in settings.tolerations]
    return found


def _claim(settings: VolcanoSettings) -> dict[str, Any]:
    return {"name": _VOLUME, "persistentVolumeClaim": {"claimName": settings.pvc_name}}


def _mount(settings: VolcanoSettings) -> dict[str, Any]:
    return {"name": _VOLUME, "mountPath": settings.pvc_mount_path}


def _literal(text: str) -> str:
    return re.sub(r"\$(?=[($])", "$$", text)
