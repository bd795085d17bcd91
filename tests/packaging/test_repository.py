"""What may not be committed, and what the README may promise."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest

# Written in parts, so that this file does not hold what it looks for.
REGISTRY_HOSTS = [
    ".".join(parts)
    for parts in (
        ("files", "pythonhosted", "org"),
        ("pypi", "org/simple"),
        ("registry", "npmjs", "org"),
        ("registry", "yarnpkg", "com"),
        ("deb", "debian", "org"),
    )
]


def test_no_file_names_a_package_registrys_host(repository: Path, tracked_files: list[str]) -> None:
    for name in tracked_files:
        text = (repository / name).read_bytes()
        for host in REGISTRY_HOSTS:
            assert host.encode() not in text, f"{name} holds {host}"


def test_pins_and_locks_hold_names_and_versions_only(
    repository: Path, tracked_files: list[str]
) -> None:
    lock = re.compile(r"(^|/)(constraints.*\.txt|requirements.*\.txt|.*\.lock|.*-lock\.json)$")
    for name in filter(lock.search, tracked_files):
        text = (repository / name).read_text()
        assert not re.search(r"https?://|--hash|--index|--find-links", text), name


def test_notebooks_are_valid_and_carry_no_widget_state(
    repository: Path, tracked_files: list[str]
) -> None:
    for name in tracked_files:
        if name.endswith(".ipynb"):
            notebook = nbformat.read(repository / name, as_version=4)
            nbformat.validate(notebook)
            assert "widgets" not in notebook.metadata, name
            assert "widget-state" not in json.dumps(notebook), name


def test_generated_folders_are_not_committed(tracked_files: list[str]) -> None:
    made = re.compile(r"(^|/)(build|dist|node_modules|__pycache__|\.venv[^/]*|uv\.lock)(/|$)")
    assert [name for name in tracked_files if made.search(name)] == []


@pytest.mark.parametrize("page", ["README.md", "docs"])
def test_every_make_command_that_is_promised_exists(repository: Path, page: str) -> None:
    makefile = (repository / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    path = repository / page
    texts = [file.read_text() for file in ([path] if path.is_file() else path.rglob("*.md"))]
    commands = {
        word for text in texts for word in re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE)
    }
    assert commands
    assert commands <= targets


def test_links_between_pages_lead_somewhere(repository: Path, tracked_files: list[str]) -> None:
    for name in tracked_files:
        if not name.endswith(".md"):
            continue
        page = repository / name
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
            if not re.match(r"[a-z]+:", target):
                assert (page.parent / target).exists(), f"{name} links to {target}"
