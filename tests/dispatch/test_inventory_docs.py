"""Every inventory in the documentation is one."""

import re
from pathlib import Path

import pytest
import yaml

from theseus.dispatch.inventory import parse_inventory

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "hosts.md"
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
# What a block on the page leaves to the others.
FOLDERS = {name: {"root": "~/theseus"} for name in ("lab", "scratch", "pvc")}


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_of_the_page_is_an_inventory(number):
    text = BLOCKS[number]
    if text.startswith("    "):  # keys of a host
        text = f"hosts:\n  box:\n    ssh: box\n    cluster: lab\n{text}"
    if "clusters" not in yaml.safe_load(text):
        text = f"{yaml.safe_dump({'clusters': FOLDERS})}{text}"
    if "hosts:" not in text:
        text += "hosts: {box: {ssh: b, cluster: lab}, hpc: {ssh: h, cluster: lab}}\n"
    assert parse_inventory(text, PAGE).names_hosts
