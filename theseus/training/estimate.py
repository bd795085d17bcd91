"""What a trainer will need on each device, from its configuration alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.numpy as jnp

from theseus.errors import UserError
from theseus.hardware.chips import Chip, Kind
from theseus.hardware.fitting import Setting, Workload, step_sizes
from theseus.hardware.memory import (
    ArrayShape,
    CompiledMemory,
    MemoryEstimate,
    StepSizes,
)
from theseus.hardware.memory import estimate as estimate_step
from theseus.model.layers.backend import assuming
from theseus.model.layers.cross_entropy import chunk_count
from theseus.training.loss import MicroBatches
from theseus.training.placement import Placement, axes_of
from theseus.training.plan import DERIVED_ROWS
from theseus.training.state import initial_state

if TYPE_CHECKING:
    from theseus.training.base import BaseTrainer


def estimate(trainer: BaseTrainer[Any, Any], *, backend: str | None = None) -> MemoryEstimate:
    """Return what each device of the trainer's mesh will need, by part.

    Parameters
    ----------
    trainer
        Nothing of it is allocated, and no token files are read.
    backend
        `"cpu"`, `"gpu"` or `"tpu"`; None: what JAX uses here.

    Raises
    ------
    UserError
        When the model does not say its sizes (`n_layers`, `n_embd`, `vocab_size`).
    """
    backend = backend or jax.default_backend()
    work, mesh, policy = workload(trainer), trainer.mesh_shape, trainer.sharding
    setting = Setting(
        devices=mesh.devices,
        policy=policy,
        chip=_ANY[cast(Kind, backend)],
        rows=trainer.plan.per_device_batch_size,
        remat=work.sizes.remat,
    )
    return estimate_step(
        work.parameters,
        work.optimizer,
        step_sizes(work, setting),
        policy,
        mesh,
        compile_step=partial(_compiled, trainer),
    )


# A chip of each kind that computes in whatever the model asks for.
_ANY: dict[Kind, Chip | None] = {
    "gpu": None,
    "tpu": Chip("any", "tpu", None, 1.0, None, ""),
    "cpu": Chip("any", "cpu", None, None, None, ""),
}


def workload(trainer: BaseTrainer[Any, Any]) -> Workload:
    """Return what the trainer's step is made of, from which any hardware is arithmetic.

    Only shapes are made: no backend of JAX is started, unless the model asks for one itself.

    Raises
    ------
    UserError
        When the model does not say its sizes (`n_layers`, `n_embd`, `vocab_size`).
    """
    model: Any = trainer.model
    needed = ("n_layers", "n_embd", "vocab_size", "heads", "hidden")
    missing = [name for name in needed if not isinstance(getattr(model, name, None), int)]
    if missing:
        msg = (
            f"the activations of {type(model).__name__} cannot be estimated: it has no "
            f"{', '.join(missing)}; a model made from GPT has them"
        )
        raise UserError(msg)
    with assuming("cpu"):
        shapes = jax.eval_shape(partial(initial_state, trainer.training, trainer.args.block_size))
    return Workload(
        parameters=tuple(_arrays(shapes.params, trainer.axes)),
        optimizer=tuple(_arrays((shapes.step, shapes.opt_state, shapes.ema), trainer.axes)),
        sizes=StepSizes(
            rows=1,
            length=trainer.args.block_size,
            accumulation=1,
            n_layers=model.n_layers,
            n_embd=model.n_embd,
            heads=model.heads,
            hidden=model.hidden,
            vocab_size=model.vocab_size,
            remat=getattr(model, "remat", "none"),
            dropout=trainer.training.dropout,
        ),
        batch_size=trainer.args.batch_size,
        most_rows=DERIVED_ROWS,
        bfloat16={kind: model.computes_in(kind) == jnp.bfloat16 for kind in _ANY},
        separate_documents=trainer.args.separate_documents,
        chunks=chunk_count,
    )


def _arrays(tree: Any, axes: Any) -> list[ArrayShape]:
    return [
        ArrayShape(leaf.shape, axes_of(path, leaf, axes), leaf.dtype.itemsize)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]


def _compiled(trainer: BaseTrainer[Any, Any]) -> CompiledMemory:
    here, wanted = jax.device_count(), trainer.mesh_shape.devices
    if wanted > here:
        msg = (
            f"the step is for {wanted} devices, and {here} are here. A CPU can stand for them: "
            f"start Python with XLA_FLAGS=--xla_force_host_platform_device_count={wanted}"
        )
        raise UserError(msg)
    trainer.placement = Placement.over(trainer.sharding, jax.devices()[:wanted])
    trainer.__dict__.pop("abstract_state", None)
    trainer.__dict__.pop("gradient_shardings", None)
    rows, plan = trainer.placement.rows(before=1), trainer.plan
    shape = (plan.accumulation, plan.rows, plan.block_size)
    ids: Any = jax.ShapeDtypeStruct(shape, jnp.int32, sharding=rows)
    weights: Any = jax.ShapeDtypeStruct(shape, jnp.float32, sharding=rows)
    batch = MicroBatches(ids, ids, weights)
    if trainer.args.separate_documents:
        batch = batch._replace(segments=ids, positions=ids)
    found: Any = trainer.lower(batch).compile().memory_analysis()
    data = sum(
        part.dtype.itemsize * plan.accumulation * plan.per_device_batch_size * plan.block_size
        for part in jax.tree.leaves(batch)
    )
    return CompiledMemory(
        state=found.argument_size_in_bytes - data,
        total=found.argument_size_in_bytes
        + found.output_size_in_bytes
        - found.alias_size_in_bytes
        + found.temp_size_in_bytes,
        backend=jax.default_backend(),
    )
