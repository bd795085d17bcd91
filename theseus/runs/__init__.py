"""Runs: one execution of a job, its folder and its records; the list of all runs."""

from theseus.runs.opening import open_run
from theseus.runs.run import Run, list_runs

__all__ = ["Run", "list_runs", "open_run"]
