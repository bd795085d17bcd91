"""What the tests of dispatch share: real servers."""

from __future__ import annotations

from tests.services.slurm import slurm, slurm_cluster
from tests.services.sshd import bad_line, ssh, ssh_servers

__all__ = ["bad_line", "slurm", "slurm_cluster", "ssh", "ssh_servers"]
