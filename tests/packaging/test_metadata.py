"""pyproject.toml and constraints.txt say the same everywhere they say something twice."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import theseus

FLAVOURS = {"cpu", "cuda12", "cuda13", "tpu", "all", "dev", "docs"}
INSTALLED = {"all", "cpu", "dev", "docs"}


@pytest.fixture(scope="module")
def pyproject(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def pins(repository: Path) -> list[Requirement]:
    lines = (repository / "constraints.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def test_every_flavour_is_an_extra_and_a_group(pyproject: dict[str, Any]) -> None:
    extras = pyproject["project"]["optional-dependencies"]
    groups = pyproject["dependency-groups"]
    assert extras.keys() == groups.keys() >= FLAVOURS


@pytest.mark.parametrize("name", sorted(FLAVOURS | {"run"}))
def test_an_extra_and_its_group_ask_for_the_same(pyproject: dict[str, Any], name: str) -> None:
    extra = pyproject["project"]["optional-dependencies"][name]
    group = pyproject["dependency-groups"][name]
    included = {f"theseus-jupyter[{item['include-group']}]" for item in _tables(group)}
    assert set(extra) == included | {item for item in group if isinstance(item, str)}


def test_every_lower_bound_is_stated_and_pinned_above(
    pyproject: dict[str, Any], pins: list[Requirement]
) -> None:
    extras = pyproject["project"]["optional-dependencies"]
    wanted = [*pyproject["project"]["dependencies"]]
    wanted += [item for name in INSTALLED | {"run"} for item in extras[name]]
    for text in wanted:
        requirement = Requirement(text)
        if requirement.name == "theseus-jupyter":
            continue
        assert requirement.specifier, f"{text}: from which version on does it work?"
        versions = [
            next(iter(pin.specifier)).version
            for pin in pins
            if canonicalize_name(pin.name) == canonicalize_name(requirement.name)
        ]
        assert versions, f"{text} is not in constraints.txt: make constraints"
        assert all(requirement.specifier.contains(version) for version in versions), text


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_each_python_has_exactly_one_pin_of_jax(
    pins: list[Requirement], python: str, platform: str
) -> None:
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": platform,
    }
    for name in ("jax", "jaxlib", "flax", "numpy"):
        chosen = [
            pin
            for pin in pins
            if pin.name == name and (not pin.marker or pin.marker.evaluate(environment))
        ]
        assert len(chosen) == 1, name


def test_a_compute_host_does_not_get_the_development_tools(pyproject: dict[str, Any]) -> None:
    assert pyproject["tool"]["uv"]["default-groups"] == []


def test_the_version_has_one_source(pyproject: dict[str, Any]) -> None:
    assert "version" in pyproject["project"]["dynamic"]
    assert pyproject["tool"]["hatch"]["version"]["path"] == "theseus/__init__.py"
    assert theseus.__version__


def _tables(group: Iterable[str | dict[str, str]]) -> list[dict[str, str]]:
    return [item for item in group if isinstance(item, dict)]
