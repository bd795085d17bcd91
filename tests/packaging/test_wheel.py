"""What is built from the sources, without a network."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=repository, check=True, capture_output=True)
    (path,) = folder.glob("theseus_jupyter-*-py3-none-any.whl")
    return zipfile.ZipFile(path)


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
