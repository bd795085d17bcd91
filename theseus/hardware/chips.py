"""The chips that people own: memory, dense peaks, and the exact names they go by.

Names are matched exactly. A name that is not in the catalogue is not an error where a machine is
looked at (`chip_by_device_name` answers None): such a device is used under its own name.
"""

from __future__ import annotations

from theseus.errors import UserError, did_you_mean
from theseus.hardware._catalogue import CATALOGUE, Chip, Kind

__all__ = [
    "Chip",
    "Kind",
    "UnknownChipError",
    "chip",
    "chip_by_device_name",
    "chip_names",
    "chips",
    "chips_by_gres_name",
]


class UnknownChipError(UserError):
    """A chip name that is not in the catalogue, or that stands for several chips."""


def chips() -> tuple[Chip, ...]:
    """Return the catalogue, in the order in which it is shown."""
    return tuple(_BY_NAME.values())


def chip_names() -> list[str]:
    """Return the names of the catalogue."""
    return list(_BY_NAME)


def chip(name: str) -> Chip:
    """Return the chip called `name`.

    Raises
    ------
    UnknownChipError
        When there is none; the message names the nearest one, or the several that `name` covers.
    """
    found = _BY_NAME.get(name)
    if found is not None:
        return found
    family = [one.name for one in chips_by_gres_name(name)]
    if len(family) > 1 and name.lower() not in _BY_NAME:
        msg = f"'{name}' is more than one chip; name which: {', '.join(family)}"
        raise UnknownChipError(msg)
    hint = f", did you mean '{family[0]}'?" if family else did_you_mean(name, _BY_NAME)
    msg = f"no chip is called '{name}'{hint} (known: {', '.join(_BY_NAME)})"
    raise UnknownChipError(msg)


def chip_by_device_name(name: str) -> Chip | None:
    """Return the chip that `nvidia-smi` or JAX calls `name`, or None when it is not listed."""
    return _BY_DEVICE_NAME.get(_without_vendor(name))


def chips_by_gres_name(name: str) -> tuple[Chip, ...]:
    """Return the chips that a SLURM GRES type may stand for.

    Case, `-` or `_`, and the vendor's name in front make no difference; nothing else is passed over.
    """
    return _BY_GRES_NAME.get(_gres_form(name), ())


def _without_vendor(name: str) -> str:
    # Drivers before 470 leave the vendor out: `A100-SXM4-40GB`, `GeForce RTX 3090`.
    return name.strip().removeprefix("NVIDIA ")


def _gres_form(name: str) -> str:
    form = name.strip().lower().replace("-", "_").replace(" ", "_")
    # `AutoDetect=nvml` takes the product's name, and older drivers leave the vendor out of it.
    return form.removeprefix("nvidia_").removeprefix("tesla_")


_BY_NAME = {one.name: one for one in CATALOGUE}
_BY_DEVICE_NAME = {
    _without_vendor(device_name): one for one in CATALOGUE for device_name in one.device_names
}
_BY_GRES_NAME: dict[str, tuple[Chip, ...]] = {}
for _one in CATALOGUE:
    for _form in dict.fromkeys(_gres_form(gres_name) for gres_name in _one.gres_names):
        _BY_GRES_NAME[_form] = (*_BY_GRES_NAME.get(_form, ()), _one)
