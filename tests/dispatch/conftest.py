"""What the tests of dispatch share: real servers."""

from __future__ import annotations

import pytest

from tests.services.slurm import slurm, slurm_cluster
from tests.services.sshd import bad_line, ssh, ssh_servers

__all__ = ["bad_line", "slurm", "slurm_cluster", "ssh", "ssh_servers"]

SERVERS = {"bad_line", "slurm", "slurm_cluster", "ssh", "ssh_servers"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Count what needs a real server among the slow tests: a second interpreter goes without."""
    for item in items:
        if SERVERS & set(getattr(item, "fixturenames", ())):
            item.add_marker("slow")
