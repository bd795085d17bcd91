"""Small programs and a shell for tests: what a host would answer, without a host."""

import os
import subprocess
from pathlib import Path

from theseus.dispatch.transport.base import Answer

NVIDIA_SMI = r"""#!/bin/sh
# Prints what lies in its folder; `delay` in it makes it slow.
state=${FAKE_NVIDIA_SMI:?}
[ ! -f "$state/delay" ] || sleep "$(cat "$state/delay")"
case $* in
*mig.mode.current*)
  if [ -f "$state/old" ]; then
    echo 'Field "mig.mode.current" is not a valid field to query.'
    exit 2
  fi
  cat "$state/gpus" ;;
*--query-gpu*) cut -d, -f1-6 "$state/gpus" ;;
*--query-compute-apps*) [ ! -f "$state/processes" ] || cat "$state/processes" ;;
esac
exit "$(cat "$state/status" 2>/dev/null || echo 0)"
"""


class Shell:
    """A transport that runs programs here, with an environment of its own."""

    name = "here"

    def __init__(self, **environment: str) -> None:
        self.environment = environment

    def run(self, program, *arguments, input=b"", timeout=30.0):  # noqa: A002 (the transports' own word)
        done = subprocess.run(
            ["/bin/sh", "-c", program, "theseus", *arguments],
            input=input,
            capture_output=True,
            timeout=timeout,
            env=dict(os.environ) | self.environment,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)


def program(folder: Path, name: str, text: str) -> Path:
    """Put a program on a PATH folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, "utf-8")
    path.chmod(0o755)
    return path


class Gpus:
    """A fake `nvidia-smi` and the GPUs that it shows."""

    def __init__(self, folder: Path, product: str = "NVIDIA H100 80GB HBM3", count: int = 4):
        self.bin, self.state = folder / "bin", folder / "gpus"
        self.state.mkdir(parents=True)
        program(self.bin, "nvidia-smi", NVIDIA_SMI)
        self.rows = [
            f"{i}, GPU-{i}, {product}, 81559, 4, 0, Disabled, Disabled" for i in range(count)
        ]
        self.show()

    def show(self, *rows: str) -> None:
        """Let it print these rows in place of idle GPUs."""
        (self.state / "gpus").write_text("".join(f"{row}\n" for row in rows or self.rows))

    def processes(self, *rows: str) -> None:
        (self.state / "processes").write_text("".join(f"{row}\n" for row in rows))

    def shell(self, **more: str) -> Shell:
        path = f"{self.bin}:{os.environ['PATH']}"
        return Shell(PATH=path, FAKE_NVIDIA_SMI=str(self.state), **more)
