"""What is built from the sources, without a network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=repository, check=True, capture_output=True)
    (path,) = folder.glob("theseus_jupyter-*-py3-none-any.whl")
    return path


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(built)


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with the wheel in it; what the wheel needs is that of this one."""
    folder = tmp_path_factory.mktemp("installed") / "environment"
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", built], check=True)
    ours = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})["purelib"]
    # A path that comes from a .pth file is searched, and the .pth files in it are not read: this
    # checkout, which is installed there as editable, is not seen.
    (Path(ours) / "needed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder


def listed(environment: Path, main: str) -> str:
    """Return what one of Jupyter's commands lists in an environment, with no other program around."""
    # `rfc3987_syntax` compiles a grammar for seconds when it is imported; nothing here needs it.
    code = f"import sys; sys.modules['rfc3987_syntax'] = None; from {main} import main; main()"
    done = subprocess.run(
        [environment / "bin" / "python", "-c", code, "list"],
        env={"PATH": str(environment / "bin"), "HOME": str(environment), "LANG": "C.UTF-8"},
        cwd=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return re.sub("\x1b\\[[0-9;]*m", "", done.stdout + done.stderr)


def test_the_wheel_holds_every_file_of_the_package(
    wheel: zipfile.ZipFile, tracked_files: list[str]
) -> None:
    package = {name for name in tracked_files if name.startswith("theseus/")}
    assert "theseus/py.typed" in package
    assert package <= set(wheel.namelist())


def test_the_wheel_holds_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {"theseus"}


def test_the_wheel_tells_jupyter_of_the_server_extension(wheel: zipfile.ZipFile) -> None:
    (data,) = {name.split("/")[0] for name in wheel.namelist() if ".data/" in name}
    placed = "data/etc/jupyter/jupyter_server_config.d/theseus.json"
    told = json.loads(wheel.read(f"{data}/{placed}"))
    assert told == {"ServerApp": {"jpserver_extensions": {"theseus.lab": True}}}


def test_the_wheel_brings_command_and_licence(wheel: zipfile.ZipFile) -> None:
    (info,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    assert "theseus = theseus.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()
    assert f"{info}/licenses/LICENSE" in wheel.namelist()
    metadata = wheel.read(f"{info}/METADATA").decode()
    assert "Name: theseus-jupyter" in metadata
    assert "Requires-Python: <3.14,>=3.11" in metadata


@pytest.mark.slow
def test_installed_without_node_the_extension_is_listed_as_in_order(installed: Path) -> None:
    told = listed(installed, "jupyterlab.labextensions")
    assert re.search(r"theseus-jupyter v\S+ enabled\s+OK", told), told
    assert str(installed / "share" / "jupyter" / "labextensions") in told


@pytest.mark.slow
def test_installed_the_server_extension_is_listed_as_in_order(installed: Path) -> None:
    told = listed(installed, "jupyter_server.extension.serverextension")
    assert re.search(r"theseus\.lab enabled", told), told
    assert re.search(r"theseus\.lab .*OK", told), told
    assert os.fspath(installed) in told
