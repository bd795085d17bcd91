"""A recorded stretch of steps: what each device did when, for a trace viewer."""

from __future__ import annotations

from pathlib import Path

import jax


class Profile:
    """Record the steps from `start` (from 1; None: never) on, `steps` of them, into a trace.

    The folder opens in TensorBoard's profile plugin and in XProf; its `*.trace.json.gz` opens in
    https://ui.perfetto.dev.
    """

    def __init__(self, start: int | None, steps: int) -> None:
        self._start = start
        self._last = None if start is None else start + steps - 1
        self._folder: Path | None = None

    def before(self, step: int, run: Path) -> None:
        """Begin to record if `step` is the first to be recorded; `run` is the run's folder."""
        if step == self._start:
            self._folder = run / "results" / "profile"
            jax.profiler.start_trace(self._folder)

    def ends_with(self, step: int) -> bool:
        """Tell whether `step` is the last one of what is being recorded."""
        return self._folder is not None and step == self._last

    def close(self) -> Path | None:
        """End the recording, if one is going on, and return its folder."""
        folder, self._folder = self._folder, None
        if folder is not None:
            jax.profiler.stop_trace()
        return folder
