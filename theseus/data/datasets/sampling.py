"""How a trainer names the data that it reads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from theseus.data.datasets.base import Dataset
from theseus.errors import UserError, did_you_mean

Style = Literal["pmd", "padded", "contrastive"]


@dataclass(frozen=True)
class Sampling:
    """One dataset of a mixture: read `dataset` for `rate` of the rows, laid out as `style`.

    Parameters
    ----------
    dataset
        A dataset class, or the key under which one is registered.
    rate
        Its share of the rows. Only the ratio to the other rates counts.
    style
        `"pmd"`: documents packed one after the other, no token is padding. `"padded"`: one
        document or conversation per row, filled up with padding. `"contrastive"`: pairs, each in
        two neighbouring rows.
    """

    dataset: type | str
    rate: float = 1.0
    style: Style = "pmd"

    def __post_init__(self) -> None:
        if not isinstance(self.dataset, str) and not _is_dataset(self.dataset):
            msg = (
                f"Sampling wants a dataset class or the key of one, got {self.dataset!r}; "
                "for example Sampling('stdlib', 1.0, 'pmd')"
            )
            raise UserError(msg)
        rate: Any = self.rate
        is_number = isinstance(rate, int | float) and not isinstance(rate, bool)
        if not is_number or not math.isfinite(rate) or rate <= 0:
            msg = f"the rate of a Sampling is a number above 0, got {rate!r}"
            raise UserError(msg)
        styles = get_args(Style)
        if self.style not in styles:
            hint = did_you_mean(str(self.style), styles)
            known = ", ".join(repr(style) for style in styles)
            msg = f"the style of a Sampling is one of {known}; got {self.style!r}{hint}"
            raise UserError(msg)


def _is_dataset(what: Any) -> bool:
    return isinstance(what, type) and issubclass(what, Dataset)
