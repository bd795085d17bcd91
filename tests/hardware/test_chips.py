"""The chip catalogue and the sharding policy."""

import json
from pathlib import Path

import pytest

from theseus.hardware.chips import (
    UnknownChipError,
    chip,
    chip_by_device_name,
    chip_names,
    chips,
    chips_by_gres_name,
)
from theseus.hardware.sharding import ShardingError, ShardingPolicy

CASES = json.loads((Path(__file__).parents[1] / "cases" / "chip_names.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["input"])
def test_a_device_name_means_one_chip_exactly_or_none(case):
    found = chip_by_device_name(case["input"])
    assert (found and found.name) == case["want"]


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("NVIDIA GH200 120GB", "gh200"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA A100-SXM-80GB", "a100-sxm4-80gb"),
        ("Tesla V100-SXM3-32GB", "v100-sxm3-32gb"),
    ],
)
def test_one_chip_may_go_by_several_names(name, want):
    found = chip_by_device_name(name)
    assert found is not None
    assert found.name == want


@pytest.mark.parametrize("name", ["A100-SXM4-80GB", "GeForce RTX 3090", "NVIDIA GeForce RTX 3090"])
def test_old_drivers_leave_the_vendor_out(name):
    assert chip_by_device_name(name) is not None


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 3090 Ti", "NVIDIA H100 80GB HBM3 MIG 1g", ""])
def test_a_longer_or_shorter_name_is_another_device(name):
    assert chip_by_device_name(name) is None


# SMs, tensor-core multiply-adds per SM and clock (with float32 accumulation), boost clock in GHz:
# from the architecture white papers, so that a sparse figure in the catalogue would not pass.
@pytest.mark.parametrize(
    ("name", "sms", "rate", "ghz"),
    [
        ("h100", 132, 2048, 1.830),
        ("h100-pcie", 114, 2048, 1.620),
        ("a100-sxm4-80gb", 108, 1024, 1.410),
        ("a40", 84, 512, 1.740),
        ("a10", 72, 512, 1.695),
        ("a6000", 84, 512, 1.800),
        ("rtx3090", 82, 256, 1.695),
        ("rtx4090", 128, 256, 2.520),
        ("rtx5090", 170, 256, 2.407),
        ("ada6000", 142, 512, 2.505),
        ("l4", 58, 512, 2.040),
        ("l40s", 142, 512, 2.490),
        ("pro6000", 188, 512, 2.617),
    ],
)
def test_bf16_peaks_are_dense(name, sms, rate, ghz):
    assert chip(name).bf16_flops == pytest.approx(2 * sms * rate * ghz * 1e9, rel=0.01)


# CUDA cores and boost clock.
@pytest.mark.parametrize(
    ("name", "cores", "ghz"),
    [
        ("h100", 16896, 1.980),
        ("a100-pcie-40gb", 6912, 1.410),
        ("v100-sxm2-16gb", 5120, 1.530),
        ("v100-sxm3-32gb", 5120, 1.597),
        ("t4", 2560, 1.590),
        ("l40", 18176, 2.490),
        ("quadro-rtx-6000", 4608, 1.770),
        ("rtx4090", 16384, 2.520),
        ("rtx5090", 21760, 2.407),
    ],
)
def test_fp32_peaks_follow_from_cores_and_clock(name, cores, ghz):
    assert chip(name).fp32_flops == pytest.approx(2 * cores * ghz * 1e9, rel=0.01)


@pytest.mark.parametrize(
    ("name", "gib"),
    [("h100", 80), ("h200", 141), ("a100-sxm4-40gb", 40), ("rtx3090", 24), ("b200", 180)],
)
def test_memory_is_the_data_sheet_less_what_the_card_keeps(name, gib):
    memory = chip(name).memory_bytes
    assert memory is not None
    assert 0.98 * gib * 2**30 < memory <= gib * 2**30


WHAT_PEOPLE_OWN = """
h100 h100-pcie h100-nvl h200 b200 gb200 gh200 a100-sxm4-40gb a100-sxm4-80gb a100-pcie-40gb
a100-pcie-80gb v100-sxm2-32gb t4 l4 l40 l40s a10 a40 rtx3090 rtx4090 rtx5090 a6000 ada6000 pro6000
quadro-rtx-6000 gb10 tpu-v2 tpu-v3 tpu-v4 tpu-v5e tpu-v5p tpu-v6e cpu
"""


def test_what_people_own_is_there():
    for name in WHAT_PEOPLE_OWN.split():
        assert chip(name).name == name


def test_every_chip_says_where_its_figures_are_from():
    for one in chips():
        assert one.source
        if one.kind != "cpu":
            assert one.memory_bytes
        if one.kind == "gpu":
            assert one.fp32_flops
            assert "https://" in one.source


def test_no_two_chips_share_a_device_name():
    names = [name for one in chips() for name in one.device_names]
    assert len(names) == len(set(names))


def test_an_unknown_chip_names_the_nearest_and_the_known():
    with pytest.raises(UnknownChipError, match="did you mean 'h100'") as error:
        chip("H100")
    assert "rtx4090" in str(error.value)
    with pytest.raises(UnknownChipError, match="did you mean 'rtx4090'"):
        chip("4090")
    with pytest.raises(UnknownChipError) as error:
        chip("abacus")
    assert "did you mean" not in str(error.value)


def test_a_family_name_asks_which_one():
    with pytest.raises(UnknownChipError, match="more than one chip") as error:
        chip("a100")
    assert "a100-sxm4-80gb" in str(error.value)


@pytest.mark.parametrize(
    ("gres", "want"),
    [
        ("h100", ["h100", "h100-pcie", "h100-nvl"]),
        ("A100_80GB", ["a100-sxm4-80gb", "a100-pcie-80gb"]),
        ("a100-sxm4-80gb", ["a100-sxm4-80gb"]),
        ("nvidia_a100-sxm4-80gb", ["a100-sxm4-80gb"]),
        ("nvidia_h100_80gb_hbm3", ["h100"]),
        ("nvidia_h100_nvl_1g.12gb", []),
        ("tesla_t4", ["t4"]),
        ("T4", ["t4"]),
        ("nvidia_h200", ["h200", "h200-nvl"]),
        ("nvidia_h200_nvl", ["h200-nvl"]),
        ("nvidia_h100_pcie", ["h100-pcie"]),
        ("nvidia_a100_80gb_pcie", ["a100-pcie-80gb"]),
        ("a100_40g", ["a100-sxm4-40gb", "a100-pcie-40gb"]),
        ("A100-SXM4-80GB", ["a100-sxm4-80gb"]),
        ("nvidia_a40", ["a40"]),
        ("geforce_rtx_3090", ["rtx3090"]),
        ("nvidia_geforce_rtx_4090", ["rtx4090"]),
        ("rtx_a6000", ["a6000"]),
        ("rtxa6000", ["a6000"]),
        ("rtx_6000_ada", ["ada6000"]),
        ("rtx_6000", ["ada6000", "quadro-rtx-6000"]),
        ("tesla_v100-sxm2-32gb", ["v100-sxm2-32gb"]),
        (
            "v100",
            [
                "v100-sxm2-32gb",
                "v100-sxm2-16gb",
                "v100-sxm3-32gb",
                "v100-pcie-32gb",
                "v100-pcie-16gb",
            ],
        ),
        ("gb10", ["gb10"]),
        ("nvidia_geforce_rtx_3090_ti", []),
        ("a100_3g.20gb", []),
        ("nvidia", []),
        ("", []),
        ("1080ti", []),
    ],
)
def test_gres_types_lead_to_the_chips_they_may_stand_for(gres, want):
    assert [one.name for one in chips_by_gres_name(gres)] == want


def test_peak_by_dtype():
    assert chip("a100-sxm4-80gb").peak_flops("bfloat16") == 312e12
    assert chip("a100-sxm4-80gb").peak_flops("float32") == 19.5e12
    assert chip("t4").peak_flops("bfloat16") == 8.1e12
    assert chip("tpu-v4").peak_flops("float32") == 275e12
    assert chip("cpu").peak_flops("float32") is None


def test_names_list_in_catalogue_order():
    assert chip_names()[0] == "h100"
    assert chip_names()[-1] == "cpu"


@pytest.mark.parametrize(
    "policy", [ShardingPolicy(), ShardingPolicy(2, fsdp=True), ShardingPolicy(4, zero=True)]
)
def test_a_policy_comes_back_from_its_plain_values(policy):
    assert ShardingPolicy.from_dict(policy.to_dict()) == policy


@pytest.mark.parametrize("tp", [0, -1, 1.5, "2", True, None])
def test_tp_is_a_count(tp):
    with pytest.raises(ShardingError, match="tp: a whole number"):
        ShardingPolicy(tp=tp)


@pytest.mark.parametrize("value", [1, "yes", None])
def test_switches_are_true_or_false(value):
    with pytest.raises(ShardingError, match="fsdp: True or False"):
        ShardingPolicy(fsdp=value)


def test_an_unknown_part_of_a_policy_is_named():
    with pytest.raises(ShardingError, match="no 'fdsp', did you mean 'fsdp'"):
        ShardingPolicy.from_dict({"fdsp": True})


def test_a_policy_reads_as_words():
    assert str(ShardingPolicy()) == "none"
    assert str(ShardingPolicy(tp=2, fsdp=True, zero=True)) == "tp 2, fsdp, zero"
