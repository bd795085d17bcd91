"""What may stand in an inventory for SLURM and for Volcano, and the texts that all hosts have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from theseus._plain import SpecError
from theseus.dispatch._inventory_yaml import Item
from theseus.dispatch.inventory import SlurmSettings, VolcanoSettings
from theseus.hardware.resources import parse_size

SLURM_KEYS = (
    "partitions",
    "cpu_partitions",
    "account",
    "qos",
    "mem",
    "time",
    "exclude",
    "constraint",
    "extra",
)
VOLCANO_KEYS = (
    "image",
    "pvc_name",
    "pvc_mount_path",
    "namespace",
    "queue",
    "num_nodes",
    "gpus_per_node",
    "gpu_resource_key",
    "cpu",
    "memory",
    "shm_size",
    "service_account",
    "priority_class",
    "node_selector",
    "tolerations",
    "labels",
    "context",
    "kubeconfig",
    "rdma",
)
TOLERATION_KEYS = ("key", "operator", "value", "effect", "tolerationSeconds")

CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FOLDER = re.compile(r"/|~|\$")
# minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]
_TIME = re.compile(
    r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|UNLIMITED|INFINITE", re.IGNORECASE | re.ASCII
)
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|[KMGTPE]i?)?", re.ASCII)
_OPTION = re.compile(r"--[a-z][a-z0-9-]*(=[^\x00-\x1f\x7f]*)?", re.ASCII)
# Without these a run could not be found, watched or resumed: theseus sets them.
_OWN_OPTIONS = frozenset(
    [
        "array",
        "chdir",
        "comment",
        "error",
        "export",
        "job-name",
        "open-mode",
        "output",
        "parsable",
        "requeue",
        "no-requeue",
        "signal",
        "wait",
        "wrap",
    ]
)
_RDMA = "rdma/rdma_shared_device_a"  # what the device plugin calls its only resource by default


def folder(item: Item, what: str = "a folder") -> str | None:
    """Return a path on a host, as written."""
    text = item.text(what)
    if text is None:
        return None
    if CONTROL.search(text):
        item.wrong(f"expected {what}, on one line and without control characters")
        return None
    if not _FOLDER.match(text):
        item.wrong(f"{what} begins with /, ~ or $: did you mean '~/{text}'?")
        return None
    return text


def word(item: Item | None, what: str) -> str | None:
    """Return a text on one line."""
    text = None if item is None else item.text(what)
    if text is None or item is None:
        return None
    if CONTROL.search(text):
        item.wrong(f"expected {what}, on one line and without control characters")
        return None
    return text.strip()


def slurm(given: Mapping[str, Item]) -> SlurmSettings:
    """Return what a host says about SLURM."""

    def texts(key: str, example: str) -> tuple[str, ...]:
        return given[key].texts(example) if key in given else ()

    return SlurmSettings(
        partitions=_partitions(given.get("partitions")),
        cpu_partitions=_partitions(given.get("cpu_partitions")),
        account=word(given.get("account"), "an account"),
        qos=word(given.get("qos"), "a quality of service"),
        mem=given["mem"].parsed(_slurm_memory, "a size with its unit, such as 64G")
        if "mem" in given
        else None,
        time=given["time"].parsed(
            lambda text: text if _TIME.fullmatch(text) else None,
            "a time limit as SLURM writes it, such as 2:00:00 or 14-0",
        )
        if "time" in given
        else None,
        exclude=_list_or_text(given.get("exclude"), "[n1, n7]"),
        constraint=word(given.get("constraint"), "features of nodes"),
        extra=tuple(
            option
            for option in texts("extra", "[--reservation=mine]")
            if _is_option(given["extra"], option)
        ),
    )


def _partitions(item: Item | None) -> tuple[str, ...]:
    """Return names in order; `{name: gpu, default: true}` is one, and comes first."""
    if item is None:
        return ()
    first: list[str] = []
    others: list[str] = []
    for entry in item.items("[gpu, long]"):
        if entry.is_mapping:
            given = entry.fields(("name", "default"), "name: gpu")
            name = word(given.get("name"), "the name of a partition")
            is_first = "default" in given and given["default"].switch()
            if "name" not in given:
                entry.wrong("no name: what SLURM calls the partition")
        else:
            name, is_first = word(entry, "the name of a partition"), False
        if name is not None:
            (first if is_first else others).append(name)
    return (*first, *others)


def _slurm_memory(text: str) -> str | None:
    # A bare number is megabytes to SLURM and bytes to everything else here: not to be guessed.
    if text == "0":
        return text
    try:
        return text if parse_size(text) and not text.strip().isdigit() else None
    except SpecError:
        return None


def _is_option(item: Item, option: str) -> bool:
    if not _OPTION.fullmatch(option):
        item.wrong(f"an option of sbatch is written like --reservation=mine, not '{option}'")
        return False
    name = option[2:].partition("=")[0]
    if name in _OWN_OPTIONS:
        item.wrong(
            f"--{name} is set by theseus: without its own value a run could not be found again"
        )
        return False
    return True


def _list_or_text(item: Item | None, example: str) -> tuple[str, ...]:
    if item is None:
        return ()
    if item.is_scalar and not item.is_empty:
        text = word(item, "names of nodes")
        return () if text is None else (text,)
    return item.texts(example)


def volcano(host: Item, given: Mapping[str, Item]) -> VolcanoSettings | None:
    """Return what a host says about Volcano; None when the least is missing."""
    found: dict[str, Any] = {}
    words = {
        "image": "a container image",
        "pvc_name": "the name of a persistent volume claim",
        "namespace": "a namespace",
        "queue": "a queue",
        "gpu_resource_key": "the name of a resource, such as nvidia.com/gpu",
        "service_account": "a service account",
        "priority_class": "a priority class",
        "context": "a context of kubectl",
    }
    quantities = "a quantity as Kubernetes writes it, such as 8, 500m or 64Gi"
    for key, item in given.items():
        if key in words:
            found[key] = word(item, words[key])
        elif key in {"pvc_mount_path", "kubeconfig"}:
            found[key] = folder(item)
        elif key in {"num_nodes", "gpus_per_node"}:
            found[key] = item.count(least=int(key == "num_nodes"))
        elif key in {"cpu", "memory", "shm_size"}:
            found[key] = item.parsed(
                lambda text: text if _QUANTITY.fullmatch(text) else None, quantities
            )
        elif key in {"node_selector", "labels"}:
            found[key] = item.words("gpu: h100")
        elif key == "tolerations":
            found[key] = tuple(_toleration(entry) for entry in item.items("[{key: gpu}]"))
        elif key == "rdma":
            found[key] = _rdma(item)
    for key in ("image", "pvc_name"):
        if key not in given:
            host.wrong(f"no {key}: {words[key]}")
    if not found.get("image") or not found.get("pvc_name"):
        return None
    return VolcanoSettings(**{key: value for key, value in found.items() if value is not None})


def _toleration(item: Item) -> dict[str, str | int]:
    found: dict[str, str | int] = {}
    for key, value in item.fields(TOLERATION_KEYS, "key: gpu").items():
        read = value.count(least=0) if key == "tolerationSeconds" else value.text()
        if read is not None:
            found[key] = read
    return found


def _rdma(item: Item) -> dict[str, int] | None:
    if item.is_mapping:
        return item.counts(f"{_RDMA}: 1", name_of=lambda _, name: name)
    switched = item.switch()
    return None if switched is None else ({_RDMA: 1} if switched else {})
