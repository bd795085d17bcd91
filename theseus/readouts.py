"""What a configuration comes to: tokens per step, steps, epochs, parameters, FLOPs, memory.

    for one in quick_readouts(q.config, q.root): print(one)

What can be told from the numbers alone costs nothing (`quick_readouts`); the rest looks at the
shapes of the model (`model_readouts`), for which JAX is imported. Nothing is allocated.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from theseus._configure import select
from theseus._nodes import schema_of
from theseus.config import ConfigError
from theseus.errors import UserError
from theseus.runs.words import number

if TYPE_CHECKING:
    from theseus.combobulation import Combobulation
    from theseus.job import Job
    from theseus.training.plan import TrainingPlan

_LARGEST = 999.5
_UNITS = ("", " k", " M", " B", " T")


@dataclass(frozen=True)
class Readout:
    """One derived figure.

    Attributes
    ----------
    name
        What is told: `steps`.
    text
        The figure with its unit.
    note
        How it comes about.
    key
        The key that stands in the way, where there is no figure; `text` then says why.
    """

    name: str
    text: str
    note: str = ""
    key: str = ""

    def __str__(self) -> str:
        return self.text


def quick_readouts(config: DictConfig, root: Path) -> list[Readout]:
    """Return what follows from the numbers alone; nothing for a job that trains nothing.

    Parameters
    ----------
    root
        Where token files are looked for.
    """
    try:
        found = training_plan(config)
    except ConfigError as error:
        return [Readout("steps", str(error), key=error.key or "")]
    if found is None:
        return []
    per_step = found.tokens_per_step
    return [
        Readout(
            "tokens per step",
            f"{per_step:,} tokens/step",
            f"{found.batch_size:,} rows × {found.block_size:,} tokens",
        ),
        Readout("steps", f"{found.steps:,} steps", f"{found.steps * per_step:,} tokens in all"),
        *_epochs(config, root, found.steps * per_step),
    ]


def training_plan(config: DictConfig) -> TrainingPlan | None:
    """Return how the tokens are divided on one device; None for a job that trains nothing.

    Raises
    ------
    ConfigError
        When nothing fits, or a value is missing.
    """
    from theseus.training.plan import plan

    names = ("training.tokens", "training.batch_size", "architecture.block_size")
    values = [_value(config, name) for name in names]
    if any(value is None for value in values):
        return None
    tokens, batch_size, block_size = values
    rows = _value(config, "training.per_device_batch_size")
    return plan(
        tokens=tokens,
        batch_size=batch_size,
        block_size=block_size,
        per_device_batch_size=rows,
        devices=1,
    )


def model_readouts(job: Job, spec: Combobulation) -> list[Readout]:
    """Return what follows from the shapes of the model; takes seconds the first time.

    Raises
    ------
    UserError
        When the configuration cannot be trained with; the message names the key.
    """
    from theseus.hardware.memory import in_words
    from theseus.sizing import NoEstimateError, sized, workload_of_job
    from theseus.training.flops import CONVENTION, flops_per_token, matrix_parameters

    try:
        work = workload_of_job(job)
    except NoEstimateError:
        return []
    count = work.parameter_count
    matrices = matrix_parameters(("", array.shape, array.axes) for array in work.parameters)
    sizes = work.sizes
    # D of the convention is heads × head size, which is n_embd here.
    per_token = flops_per_token(matrices, sizes.n_layers, sizes.n_embd, sizes.length)
    found = [Readout("parameters", f"{short(count)} parameters", f"{count:,}")]
    if plan := training_plan(job.config):
        total = per_token * plan.steps * plan.tokens_per_step
        found.append(
            Readout("FLOPs", f"{number(total)} FLOPs", f"{number(per_token)} a token: {CONVENTION}")
        )
    fit = sized(spec, work).fit
    if fit is not None:
        parts = [f"{name} {in_words(size)}" for name, size in fit.estimate.parts.items() if size]
        where = "a device" if spec.resources.gpus else "this machine's processor"
        found.append(
            Readout(
                "memory",
                f"{in_words(fit.estimate.total)} of memory",
                f"on {where}: {', '.join(parts)}",
            )
        )
    return found


def told_problem(error: UserError) -> Readout:
    """Return what is shown in place of the figures of a model that cannot be made."""
    return Readout("model", str(error), key=getattr(error, "key", None) or "")


def short(count: float) -> str:
    """Return a count in three digits: `124 M`, `0.9 M` is `900 k`."""
    size = 0
    while count >= _LARGEST and size + 1 < len(_UNITS):
        count, size = count / 1000, size + 1
    return f"{count:.3g}{_UNITS[size]}"


def _epochs(config: DictConfig, root: Path, tokens: int) -> list[Readout]:
    from theseus.data.token_file import Sidecar, token_folder

    dataset, suffix = _value(config, "data.dataset"), _value(config, "data.suffix") or ""
    if not dataset:
        return []
    folder = token_folder(root, dataset, suffix)
    try:
        present = Sidecar.read(folder).tokens["train"]
    except (OSError, UserError):
        return [Readout("epochs", f"no tokens of {dataset} yet", f"looked in {folder}")]
    if not present:
        return []
    share = tokens / present
    unit = "epoch" if share == 1 else "epochs"
    return [Readout("epochs", f"{share:.3g} {unit} of {dataset}", f"{present:,} tokens are there")]


def _value(config: DictConfig, key: str) -> Any:
    """Return a value; None where there is no such key.

    Raises
    ------
    ConfigError
        When the key has no value, or one that cannot be resolved.
    """
    if key not in schema_of(config):
        return None
    try:
        return select(config, key)
    except ConfigError:
        raise
    except OmegaConfBaseException as error:
        raise ConfigError(f"{key}: {str(error).splitlines()[0]}", key) from None
