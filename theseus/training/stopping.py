"""Whether a run is asked to end: known to all its processes at the same step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from theseus.hardware.sharding import MESH_AXES
from theseus.job import Recorder
from theseus.training.placement import Placement


class StopWatch:
    """Ask every process whether one of them was told to stop.

    A signal reaches one process, or each at another moment; were one of them to save while the
    others take another step, all would wait for ever. So the question is put with each step, and
    the answer, which is the same everywhere, is read when that step is done.
    """

    def __init__(self, recorder: Recorder, placement: Placement) -> None:
        self._recorder = recorder
        self._alone = jax.process_count() == 1
        self._heard = False
        if not self._alone:
            everyone = NamedSharding(placement.mesh, PartitionSpec(MESH_AXES))
            self._sharding, self._size = everyone, placement.shape.devices
            self._any = jax.jit(jnp.max, out_shardings=placement.everywhere())

    @property
    def stopping(self) -> bool:
        """Whether the run is to end, as far as all processes know."""
        return bool(self._recorder.stopping) if self._alone else self._heard

    def ask(self) -> jax.Array | None:
        """Put the question; the answer is for `hear`. None where there is nobody to ask."""
        if self._alone:
            return None
        here = np.full(jax.local_device_count(), int(bool(self._recorder.stopping)), np.int32)
        flags = jax.make_array_from_process_local_data(self._sharding, here, (self._size,))
        answer: jax.Array = self._any(flags)
        return answer

    def hear(self, answer: jax.Array | None) -> None:
        """Take in an answer, waiting for it if need be."""
        if answer is not None:
            self._heard = self._heard or bool(int(answer))

    def asked_now(self) -> bool:
        """Ask and wait for the answer: whether the run is to end."""
        self.hear(self.ask())
        return self.stopping
