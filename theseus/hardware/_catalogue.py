"""The figures of the chip catalogue, and where each is from.

Peaks are dense: data sheets print the figure with 2:4 sparsity, which no training run reaches, so
those are halved here. Memory of a GPU is what `nvidia-smi` reports as its total, a little less
than the data sheet's figure and closer to what can be allocated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["gpu", "tpu", "cpu"]


@dataclass(frozen=True)
class Chip:
    """One chip of the catalogue.

    Attributes
    ----------
    name
        How it is called in `.chip("…")`, in the inventory and in messages.
    memory_bytes
        Memory of one device; None where it is the machine's own (`cpu`).
    bf16_flops, fp32_flops
        Dense peak, FLOP/s, of matrix products; None where the vendor states none. A chip without
        bfloat16 units has its float16 tensor peak in neither: XLA computes bfloat16 there in
        float32.
    source
        Where the figures are from.
    device_names
        The names that `nvidia-smi` and `jax.Device.device_kind` give, exactly.
    gres_names
        SLURM GRES types in use for it. A short one (`a100`) may stand for several chips.
    """

    name: str
    kind: Kind
    memory_bytes: int | None
    bf16_flops: float | None
    fp32_flops: float | None
    source: str
    device_names: tuple[str, ...] = ()
    gres_names: tuple[str, ...] = ()

    def peak_flops(self, dtype: str) -> float | None:
        """Return the dense peak for products in `dtype` (`"bfloat16"` or `"float32"`).

        On a TPU a float32 product runs in bfloat16 unless a higher precision is asked for (JAX's
        default), so the same figure is returned for both.
        """
        if self.kind == "tpu":
            return self.bf16_flops
        if dtype == "bfloat16" and self.bf16_flops is not None:
            return self.bf16_flops
        return self.fp32_flops


_NVIDIA = "https://www.nvidia.com/en-us/"
_MIB = 2**20
_GIB = 2**30
_TERA = 1e12


def _gpu(
    name: str,
    mib: int,
    bf16: float | None,
    fp32: float,
    device_names: Iterable[str],
    source: str,
    *gres_names: str,
) -> Chip:
    device_names = tuple(device_names)
    # What `AutoDetect=nvml` makes of the product name.
    detected = tuple(one.lower().replace(" ", "_") for one in device_names)
    return Chip(
        name,
        "gpu",
        mib * _MIB,
        None if bf16 is None else bf16 * _TERA,
        fp32 * _TERA,
        source,
        device_names,
        tuple(dict.fromkeys((name, *gres_names, *detected))),
    )


def _tpu(name: str, gib: int, bf16: float, page: str, *device_names: str) -> Chip:
    source = f"Cloud TPU documentation, https://cloud.google.com/tpu/docs/{page}"
    return Chip(name, "tpu", gib * _GIB, bf16 * _TERA, None, source, device_names)


_HOPPER = f"H100 data sheet and Hopper white paper, {_NVIDIA}data-center/h100/"
_H200 = f"H200 data sheet, {_NVIDIA}data-center/h200/"
_BLACKWELL = f"Blackwell data sheet (per GPU), {_NVIDIA}data-center/"
_GH200 = f"GH200 data sheet, {_NVIDIA}data-center/grace-hopper-superchip/"
_A100 = f"A100 data sheet, {_NVIDIA}data-center/a100/"
_V100 = f"V100 data sheet, {_NVIDIA}data-center/v100/"
_RTX = f"{_NVIDIA}design-visualization/"
_GEFORCE = f"{_NVIDIA}geforce/graphics-cards/"
_GA102 = "Ampere GA102 white paper (float32 accumulation)"
_ADA = "Ada white paper (float32 accumulation)"
_PRO = "RTX PRO 6000 Blackwell data sheet (an eighth of sparse FP4)"

CATALOGUE = (
    _gpu("h100", 81559, 989.4, 66.9, ["NVIDIA H100 80GB HBM3"], _HOPPER, "h100-sxm"),
    _gpu("h100-pcie", 81559, 756.0, 51.2, ["NVIDIA H100 PCIe"], _HOPPER, "h100"),
    _gpu("h100-nvl", 95830, 835.5, 60.0, ["NVIDIA H100 NVL"], _HOPPER, "h100"),
    _gpu("h200", 143771, 989.4, 66.9, ["NVIDIA H200"], _H200, "h200-sxm"),
    _gpu("h200-nvl", 143771, 835.5, 60.0, ["NVIDIA H200 NVL"], _H200, "h200"),
    _gpu("b200", 183359, 2250.0, 75.0, ["NVIDIA B200"], f"{_BLACKWELL}hgx/"),
    _gpu("gb200", 189471, 2500.0, 80.0, ["NVIDIA GB200"], f"{_BLACKWELL}gb200-nvl72/"),
    _gpu("gh200", 97871, 989.4, 66.9, ["NVIDIA GH200 480GB", "NVIDIA GH200 120GB"], _GH200),
    _gpu("gh200-144gb", 146831, 989.4, 66.9, ["NVIDIA GH200 144G HBM3e"], _GH200, "gh200"),
    _gpu(
        "a100-sxm4-80gb",
        81920,
        312.0,
        19.5,
        ["NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM-80GB"],
        _A100,
        "a100",
        "a100-80gb",
        "a100-80g",
    ),
    _gpu(
        "a100-sxm4-40gb",
        40960,
        312.0,
        19.5,
        ["NVIDIA A100-SXM4-40GB"],
        _A100,
        "a100",
        "a100-40gb",
        "a100-40g",
    ),
    _gpu(
        "a100-pcie-80gb",
        81920,
        312.0,
        19.5,
        ["NVIDIA A100 80GB PCIe"],
        _A100,
        "a100",
        "a100-80gb",
        "a100-80g",
    ),
    _gpu(
        "a100-pcie-40gb",
        40960,
        312.0,
        19.5,
        ["NVIDIA A100-PCIE-40GB"],
        _A100,
        "a100",
        "a100-40gb",
        "a100-40g",
    ),
    _gpu(
        "v100-sxm2-32gb",
        32768,
        None,
        15.7,
        ["Tesla V100-SXM2-32GB"],
        _V100,
        "v100",
        "v100-32gb",
        "v100-32g",
    ),
    _gpu(
        "v100-sxm2-16gb",
        16384,
        None,
        15.7,
        ["Tesla V100-SXM2-16GB"],
        _V100,
        "v100",
        "v100-16gb",
        "v100-16g",
    ),
    # Of the DGX-2: the same chip at 1597 MHz.
    _gpu(
        "v100-sxm3-32gb",
        32768,
        None,
        16.35,
        ["Tesla V100-SXM3-32GB"],
        _V100,
        "v100",
        "v100-32gb",
        "v100-32g",
    ),
    _gpu(
        "v100-pcie-32gb",
        32768,
        None,
        14.0,
        ["Tesla V100-PCIE-32GB"],
        _V100,
        "v100",
        "v100-32gb",
        "v100-32g",
    ),
    _gpu(
        "v100-pcie-16gb",
        16384,
        None,
        14.0,
        ["Tesla V100-PCIE-16GB"],
        _V100,
        "v100",
        "v100-16gb",
        "v100-16g",
    ),
    _gpu("v100s-pcie-32gb", 32768, None, 16.4, ["Tesla V100S-PCIE-32GB"], _V100, "v100s"),
    _gpu("t4", 15360, None, 8.1, ["Tesla T4"], f"T4 data sheet, {_NVIDIA}data-center/tesla-t4/"),
    _gpu("l4", 23034, 121.0, 30.3, ["NVIDIA L4"], f"L4 data sheet, {_NVIDIA}data-center/l4/"),
    _gpu("l40", 46068, 181.05, 90.5, ["NVIDIA L40"], f"L40 data sheet, {_NVIDIA}data-center/l40/"),
    _gpu(
        "l40s", 46068, 362.05, 91.6, ["NVIDIA L40S"], f"L40S data sheet, {_NVIDIA}data-center/l40s/"
    ),
    _gpu(
        "a10", 23028, 125.0, 31.2, ["NVIDIA A10"], f"A10 data sheet, {_NVIDIA}data-center/products/"
    ),
    _gpu("a10g", 23028, 70.0, 35.0, ["NVIDIA A10G"], "A10G data sheet, https://d1.awsstatic.com/"),
    _gpu("a40", 46068, 149.7, 37.4, ["NVIDIA A40"], f"A40 data sheet, {_NVIDIA}data-center/a40/"),
    _gpu(
        "rtx3090",
        24576,
        71.0,
        35.6,
        ["NVIDIA GeForce RTX 3090"],
        f"{_GA102}, {_GEFORCE}30-series/",
        "3090",
        "rtx_3090",
    ),
    _gpu(
        "rtx4090",
        24564,
        165.2,
        82.6,
        ["NVIDIA GeForce RTX 4090"],
        f"{_ADA}, {_GEFORCE}40-series/",
        "4090",
        "rtx_4090",
    ),
    _gpu(
        "rtx5090",
        32607,
        209.5,
        104.8,
        ["NVIDIA GeForce RTX 5090"],
        f"RTX Blackwell white paper (float32 accumulation), {_GEFORCE}50-series/",
        "5090",
        "rtx_5090",
    ),
    _gpu(
        "a6000", 49140, 154.8, 38.7, ["NVIDIA RTX A6000"], f"{_GA102}, {_RTX}rtx-a6000/", "rtxa6000"
    ),
    _gpu(
        "ada6000",
        49140,
        364.2,
        91.1,
        ["NVIDIA RTX 6000 Ada Generation"],
        f"{_ADA}, {_RTX}rtx-6000/",
        "rtx6000ada",
        "rtx_6000_ada",
        "rtx6000",
        "rtx_6000",
    ),
    _gpu(
        "pro6000",
        97887,
        503.8,
        126.0,
        ["NVIDIA RTX PRO 6000 Blackwell Workstation Edition"],
        f"{_PRO}, {_NVIDIA}products/workstations/",
        "rtx_pro_6000",
        "rtx_pro_6000_blackwell",
        "rtxpro6000",
    ),
    _gpu(
        "pro6000-max-q",
        97887,
        438.9,
        110.0,
        ["NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"],
        f"{_PRO}, {_NVIDIA}products/workstations/",
        "pro6000",
        "rtx_pro_6000",
        "rtx_pro_6000_blackwell",
        "rtxpro6000",
    ),
    _gpu(
        "pro6000-server",
        97887,
        500.0,
        120.0,
        ["NVIDIA RTX PRO 6000 Blackwell Server Edition"],
        f"{_PRO}, {_NVIDIA}data-center/rtx-pro-6000-blackwell-server-edition/",
        "pro6000",
        "rtx_pro_6000",
        "rtx_pro_6000_blackwell",
        "rtxpro6000",
    ),
    _gpu(
        "quadro-rtx-6000",
        24576,
        None,
        16.3,
        ["Quadro RTX 6000"],
        f"Quadro RTX 6000 data sheet, {_RTX}",
        "rtx6000",
        "rtx_6000",
    ),
    # One memory for the processor and the GPU: the data sheet's 128 GB; nvidia-smi says `[N/A]`.
    _gpu(
        "gb10",
        128 * 10**9 // _MIB,
        125.0,
        31.0,
        ["NVIDIA GB10"],
        f"DGX Spark data sheet (an eighth of sparse FP4), {_NVIDIA}products/workstations/dgx-spark/",
    ),
    _tpu("tpu-v2", 16, 45.0, "v2", "TPU v2"),
    _tpu("tpu-v3", 32, 123.0, "v3", "TPU v3"),
    _tpu("tpu-v4", 32, 275.0, "v4", "TPU v4"),
    _tpu("tpu-v5e", 16, 197.0, "v5e", "TPU v5 lite", "TPU v5e"),
    _tpu("tpu-v5p", 95, 459.0, "v5p", "TPU v5", "TPU v5p"),
    _tpu("tpu-v6e", 32, 918.0, "v6e", "TPU v6 lite", "TPU v6e"),
    Chip("cpu", "cpu", None, None, None, "the machine itself", ("cpu",)),
)
