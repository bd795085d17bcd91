"""Run the kernel tests in an environment of its own for each version of ipykernel.

    python tests/kernels.py              # all that we answer for
    python tests/kernels.py 6.29         # one of them

Versions of ipykernel differ in which thread runs a callback and under which cell a message comes. An
environment here holds that ipykernel and what it needs alone; everything else is taken from the
interpreter that runs this script. The environments lie in `build/kernels/` and are kept. The exit
status is that of the first run of the tests that failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

VERSIONS = ("6.29", "7.0", "7.3", "7.4")
ROOT = Path(__file__).resolve().parents[1]
TESTS = ("tests/notebook/test_kernels.py",)


def main() -> int:
    """Make the environments that are not there yet, and run the tests in each."""
    parser = argparse.ArgumentParser(description="Run the kernel tests per version of ipykernel.")
    parser.add_argument("versions", nargs="*", default=VERSIONS, metavar="VERSION")
    parser.add_argument(
        "--install-only", action="store_true", help="make the environments, no more"
    )
    parser.add_argument("-k", default="", metavar="WORDS", help="as for pytest")
    options = parser.parse_args()
    for version in options.versions:
        python = environment(version)
        if options.install_only:
            continue
        begun = time.monotonic()
        chosen = ["-k", options.k] if options.k else []
        words = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, *TESTS]
        status = subprocess.run(words, cwd=ROOT, check=False).returncode
        print(
            f"ipykernel {version}: {time.monotonic() - begun:.0f} s, exit status {status}",
            flush=True,
        )
        if status:
            return status
    return 0


def environment(version: str) -> str:
    """Return the Python of the environment with that ipykernel, made when it is not there."""
    folder = ROOT / "build" / "kernels" / f"{version}-py{sys.version_info[0]}.{sys.version_info[1]}"
    python = folder / "bin" / "python"
    done = folder / "installed"
    if not done.exists():
        venv.create(folder, clear=True, with_pip=False, symlinks=True)
        ours = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})["purelib"]
        # Ours comes first on the path, then the packages of the interpreter that runs this.
        (Path(ours) / "above.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", f"ipykernel=={version}.*"], check=True)
        done.touch()
    told = subprocess.run(
        [python, "-c", "import ipykernel; print(ipykernel.__version__)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    print(f"ipykernel {told} in {folder.relative_to(ROOT)}", flush=True)
    if not told.startswith(f"{version}."):
        raise SystemExit(f"wanted ipykernel {version}, found {told}")
    return str(python)


if __name__ == "__main__":
    sys.exit(main())
