"""`python -m theseus.dispatch.worker FOLDER`: do what `dispatch.json` in a run's folder says."""

from __future__ import annotations

import sys

from theseus.dispatch.worker.work import work

if __name__ == "__main__":
    sys.exit(work(sys.argv[1]))
