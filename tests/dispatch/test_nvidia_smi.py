"""What `nvidia-smi` prints, from public reports: which GPUs there are and which are free."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theseus.dispatch.providers.nvidia_smi import (
    COLUMNS,
    GpuProcess,
    Reading,
    parse_gpus,
    parse_processes,
    steadied,
    why_not_free,
)
from theseus.hardware.chips import chip_by_device_name

CASES = json.loads((Path(__file__).parent / "cases" / "nvidia_smi.json").read_text("utf-8"))
TABLES = [case for case in CASES if isinstance(case["want"], dict)]
NAMES = [case for case in CASES if not isinstance(case["want"], dict)]


def free(reading: Reading, processes: tuple[GpuProcess, ...] = ()) -> list[int]:
    return [gpu.index for gpu in reading.gpus if why_not_free(gpu, processes) is None]


@pytest.mark.parametrize("case", TABLES, ids=lambda case: case["what"])
def test_the_table_says_which_are_free(case):
    reading = parse_gpus(case["input"])
    indices = [gpu.index for gpu in reading.gpus]
    busy = [index for index in indices if index not in free(reading)]
    assert {
        "gpus": len(reading.gpus), "free": free(reading), "busy": busy, "bad": reading.bad,
    } == case["want"]  # fmt: skip


@pytest.mark.parametrize("case", NAMES, ids=lambda case: case["input"])
def test_a_chip_is_known_by_its_exact_name_only(case):
    known = chip_by_device_name(case["input"])
    assert (known.name if known else None) == case["want"]


def test_a_chip_that_is_not_listed_goes_by_its_own_name_and_memory():
    (gpu,) = parse_gpus("0, GPU-1, NVIDIA Future X1, 200000, 3, 0\n").gpus
    assert (gpu.chip, gpu.memory) == ("NVIDIA Future X1", 200000 * 2**20)


def test_units_and_a_header_make_no_difference():
    plain = parse_gpus("0, GPU-1, NVIDIA L40S, 46068, 12, 5\n")
    header = "index, uuid, name, memory.total [MiB], memory.used [MiB], utilization.gpu [%]\n"
    assert parse_gpus(f"{header}0, GPU-1, NVIDIA L40S, 46068 MiB, 12 MiB, 5 %\n") == plain
    assert plain.gpus[0].utilization == 5


def test_a_chip_with_the_machines_memory_has_the_catalogues_and_is_judged_by_its_processes():
    reading = parse_gpus("0, GPU-1, NVIDIA GB10, [N/A], [N/A], 0 %\n")
    assert (reading.gpus[0].chip, reading.gpus[0].used) == ("gb10", None)
    assert reading.gpus[0].memory == 128 * 10**9 // 2**20 * 2**20
    assert free(reading) == [0]
    assert free(reading, (GpuProcess("GPU-1", 77, "python", None),)) == []


def test_a_card_without_a_handle_and_its_row_of_errors_are_one_bad_card():
    reading = parse_gpus(
        "Unable to determine the device handle for GPU0000:02:00.0: Unknown Error\n"
        "[Unknown Error], [Unknown Error], [Unknown Error], [Unknown Error]\n"
    )
    assert (reading.gpus, reading.bad) == ((), 1)


def test_a_card_whose_memory_cannot_be_read_is_not_free():
    row = "1, GPU-1, NVIDIA RTX A6000, 49140 MiB, [Unknown Error], 0 %"
    reading = parse_gpus(row)
    assert (free(reading), reading.bad) == ([], 1)
    assert why_not_free(reading.gpus[0]) == "answers [Unknown Error]"


def test_a_utilization_that_cannot_be_read_does_no_harm():
    assert free(parse_gpus("1, GPU-1, NVIDIA RTX A6000, 49140 MiB, 6 MiB, [Unknown Error]")) == [1]


def test_a_name_may_hold_a_comma():
    (gpu,) = parse_gpus("0, GPU-1, Odd, Name, 1000, 1, 0, Disabled, Disabled", COLUMNS).gpus
    assert (gpu.name, gpu.memory) == ("Odd, Name", 1000 * 2**20)


def test_a_gpu_split_by_mig_is_not_free():
    text = "0, GPU-1, NVIDIA A100-SXM4-80GB, 81920, 0, [N/A], Enabled, Disabled"
    assert why_not_free(parse_gpus(text, COLUMNS).gpus[0]) == "split by MIG"


def test_the_gpu_of_a_screen_may_hold_what_a_desktop_draws():
    row = "0, GPU-1, NVIDIA GeForce RTX 4090, 24564, 700, 3, [N/A], {}"
    assert free(parse_gpus(row.format("Enabled"), COLUMNS)) == [0]
    assert free(parse_gpus(row.format("Disabled"), COLUMNS)) == []


@pytest.mark.parametrize(
    "text",
    [
        "Failed to initialize NVML: Driver/library version mismatch",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "No devices were found",
    ],
)
def test_a_driver_that_fails_is_quoted(text):
    assert parse_gpus(text) == Reading((), 0, (text,))


def test_a_lost_card_is_bad():
    text = "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system to recover this GPU"
    assert parse_gpus(text).bad == 1


def test_several_looks_take_the_least_memory_and_the_median_utilization():
    looks = [
        parse_gpus(f"0, GPU-1, NVIDIA L4, 23034, {used}, {busy}\n")
        for used, busy in [(9000, 90), (4, 0), (5, 1)]
    ]
    (gpu,) = steadied(looks).gpus
    assert (gpu.used, gpu.utilization) == (4 * 2**20, 1)


def test_processes_are_read_with_any_name():
    text = "GPU-1, 4242, /opt/a,b c/python, 59996\nGPU-2, 17, [Not Found], [N/A]\nnothing here\n"
    assert parse_processes(text) == (
        GpuProcess("GPU-1", 4242, "/opt/a,b c/python", 59996 * 2**20),
        GpuProcess("GPU-2", 17, "[Not Found]", None),
    )


@given(st.text())
def test_no_text_is_an_error(text):
    reading = parse_gpus(text)
    free(reading)
    steadied([reading, reading])
    parse_gpus(text, COLUMNS)
    parse_processes(text)
