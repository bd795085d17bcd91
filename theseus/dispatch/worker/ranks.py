"""One run, several processes: the first one opens it, and tells the others what it found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from theseus.errors import UserError
from theseus.job import Job, OpenRun, Recorder
from theseus.runs.follower import follow_run

_REFUSED = -1


class FirstProcessError(UserError):
    """The first process could not open the run, so none of the others can take part."""


@contextmanager
def opened_together(opened: OpenRun, job: Job, *, fresh: bool, folder: Path) -> Iterator[Recorder]:
    """Open the run in the first process with `opened`, and take part in it in the others."""
    import jax

    if jax.process_index() == 0:
        with ExitStack() as stack:
            try:
                recorder = stack.enter_context(opened(job, fresh=fresh))
            except BaseException:
                _agree(_REFUSED, 0)  # otherwise the others would wait for ever
                raise
            _agree(int(recorder.finished), recorder.attempt)
            yield recorder
        return
    finished, attempt = _agree(0, 0)
    if finished == _REFUSED:
        raise FirstProcessError("process 0 could not open the run; its log says why")
    with follow_run(folder, finished=bool(finished), attempt=attempt) as follower:
        yield follower


def _agree(finished: int, attempt: int) -> tuple[int, int]:
    """Return what the first process says; all of them call this."""
    import numpy as np
    from jax.experimental import multihost_utils

    found = multihost_utils.broadcast_one_to_all(np.array([finished, attempt], dtype=np.int32))
    return int(found[0]), int(found[1])
