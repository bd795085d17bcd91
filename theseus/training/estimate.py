"""What a trainer will need on each device, from its configuration alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from theseus.errors import UserError
from theseus.hardware.memory import (
    ArrayShape,
    CompiledMemory,
    MemoryEstimate,
    StepSizes,
)
from theseus.hardware.memory import estimate as estimate_step
from theseus.hardware.sharding import MeshShape
from theseus.model.layers.cross_entropy import chunk_count
from theseus.training.loss import MicroBatches
from theseus.training.placement import Placement, axes_of
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
    mesh = trainer.mesh_shape
    shapes = jax.eval_shape(partial(initial_state, trainer.training, trainer.args.block_size))
    return estimate_step(
        _arrays(shapes.params, trainer.axes),
        _arrays((shapes.step, shapes.opt_state, shapes.ema), trainer.axes),
        _sizes(trainer, mesh, backend),
        trainer.sharding,
        mesh,
        compile_step=partial(_compiled, trainer),
    )


def _arrays(tree: Any, axes: Any) -> list[ArrayShape]:
    return [
        ArrayShape(leaf.shape, axes_of(path, leaf, axes), leaf.dtype.itemsize)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]


def _sizes(trainer: BaseTrainer[Any, Any], mesh: MeshShape, backend: str) -> StepSizes:
    model: Any = trainer.model
    needed = ("n_layers", "n_embd", "vocab_size", "heads", "hidden")
    missing = [name for name in needed if not isinstance(getattr(model, name, None), int)]
    if missing:
        msg = (
            f"the activations of {type(model).__name__} cannot be estimated: it has no "
            f"{', '.join(missing)}; a model made from GPT has them"
        )
        raise UserError(msg)
    rows, length = trainer.plan.per_device_batch_size, trainer.plan.block_size
    bfloat16 = model.computes_in(backend) == jnp.bfloat16
    return StepSizes(
        rows=rows,
        length=length,
        accumulation=trainer.plan.accumulation,
        n_layers=model.n_layers,
        n_embd=model.n_embd,
        heads=model.heads,
        hidden=model.hidden,
        vocab_size=model.vocab_size,
        # XLA computes bfloat16 in float32 on a CPU, and keeps it so.
        itemsize=2 if bfloat16 and backend != "cpu" else 4,
        flash=backend == "gpu" and bfloat16 and not trainer.args.separate_documents,
        remat=getattr(model, "remat", "none"),
        dropout=trainer.training.dropout,
        logits_chunks=chunk_count(
            rows=rows,
            length=length,
            vocab_size=model.vocab_size // mesh.tensor,
            backend=backend,
        ),
    )


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
