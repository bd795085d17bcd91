"""How a run is divided into steps, micro-batches and rows: pure arithmetic, checked at once."""

from __future__ import annotations

from dataclasses import dataclass

from theseus.config import ConfigError

DERIVED_ROWS = 8  # rows per device and micro-batch where the user names none


@dataclass(frozen=True)
class TrainingPlan:
    """The sizes of a run; one step trains on `batch_size` rows of `block_size` tokens."""

    steps: int
    batch_size: int
    block_size: int
    per_device_batch_size: int
    devices: int  # that rows are spread over; with tensor parallelism each stands for tp of them

    @property
    def rows(self) -> int:
        """R: rows of one micro-batch over all devices."""
        return self.per_device_batch_size * self.devices

    @property
    def accumulation(self) -> int:
        """A: micro-batches of one step."""
        return self.batch_size // self.rows

    @property
    def tokens_per_step(self) -> int:
        """Tokens that one step trains on."""
        return self.batch_size * self.block_size


def plan(
    *,
    tokens: int,
    batch_size: int,
    block_size: int,
    per_device_batch_size: int | None,
    devices: int,
) -> TrainingPlan:
    """Return how `tokens` are trained on.

    Parameters
    ----------
    tokens
        In total; what does not fill a last step is left out.
    batch_size
        Rows per optimizer step, over all devices and micro-batches.
    per_device_batch_size
        Rows per device and micro-batch; None: the most that divides, up to 8.
    devices
        Devices that the rows are spread over.

    Raises
    ------
    ConfigError
        When nothing fits, with the values that would.
    """
    if batch_size % devices:
        low, high = batch_size // devices * devices, -(-batch_size // devices) * devices
        fitting = " or ".join(str(n) for n in dict.fromkeys((low, high)) if n)
        msg = (
            f"training.batch_size = {batch_size} rows cannot be spread over {devices} devices; "
            f"{fitting} can"
        )
        raise ConfigError(msg, "training.batch_size")
    share = batch_size // devices
    fitting_rows = [rows for rows in range(1, share + 1) if share % rows == 0]
    if per_device_batch_size is None:
        per_device_batch_size = max(rows for rows in fitting_rows if rows <= DERIVED_ROWS)
    if per_device_batch_size not in fitting_rows:
        over = f" over {devices} devices" if devices > 1 else ""
        msg = (
            f"training.per_device_batch_size = {per_device_batch_size} does not divide "
            f"training.batch_size = {batch_size}{over}; these do: "
            f"{' '.join(map(str, fitting_rows))}"
        )
        raise ConfigError(msg, "training.per_device_batch_size")
    steps = tokens // (batch_size * block_size)
    if steps == 0:
        least = batch_size * block_size
        msg = (
            f"training.tokens = {tokens:,} is less than one step: training.batch_size = "
            f"{batch_size} rows × architecture.block_size = {block_size} = {least:,} tokens; "
            "raise the one or lower the others"
        )
        raise ConfigError(msg, "training.tokens")
    return TrainingPlan(steps, batch_size, block_size, per_device_batch_size, devices)
