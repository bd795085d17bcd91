"""What the doctor says of machines that are well and of those that are not."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from theseus._doctor_facts import Facts, HostFacts, Jax, Server, gather
from theseus.doctor import Report, check

GIB = 1024**3
WELL = Facts(
    version="1",
    python="3.12.1",
    executable="/env/bin/python",
    prefix="/env",
    system="Linux x86_64",
    packages={"ipykernel": "7.4.0", "anywidget": "0.11.0", "ipywidgets": "8.1.9", "jax": "0.10"},
    unmet={},
    in_kernel=True,
    server=Server(
        "/env",
        {"jupyterlab": "4.6.6"},
        {"anywidget": "0.11.2", "@jupyter-widgets/jupyterlab-manager": "5.0.16"},
    ),
    inventory="/home/ada/.theseus.yaml",
    inventory_error="",
    hosts=[HostFacts("box", "plain", "box.example.org", key=True), HostFacts("here", "local")],
    ssh="/usr/bin/ssh",
    gpus=[],
    jax=Jax("cpu", ["cpu"]),
    jax_platforms="",
    free={"/home/ada": 50 * GIB},
)


def broken(**facts):
    """Return what → fix of the broken things on a machine that is well otherwise."""
    return {one.what: one.fix for one in check(replace(WELL, **facts)) if one.level == "broken"}


def noted(**facts):
    return {one.what: one.found for one in check(replace(WELL, **facts)) if one.level == "note"}


def server(**extensions):
    names = {"manager": "@jupyter-widgets/jupyterlab-manager", "anywidget": "anywidget"}
    found = dict(WELL.server.extensions)
    for name, version in extensions.items():
        found.pop(names[name])
        found |= {names[name]: version} if version else {}
    return replace(WELL.server, prefix="/jupyter", extensions=found)


def test_a_machine_that_is_well():
    assert {one.level for one in check(WELL)} == {"ok"}
    assert Report(check(WELL)).verdict == "all is well"


def test_a_missing_and_an_old_package():
    found = check(replace(WELL, unmet={"paramiko": ("4.0", None), "rich": ("14.0", "13.1")}))
    told = {one.what: (one.level, one.found, one.fix) for one in found}
    assert told["paramiko"] == (
        "broken",
        "not installed",
        "/env/bin/python -m pip install 'paramiko>=4.0'",
    )
    assert told["rich"][1] == "13.1, and 14.0 or newer is needed"


def test_kernel_and_jupyter_in_different_environments():
    assert "/jupyter" in noted(server=server())["Jupyter"]
    missing = broken(server=server(anywidget=None, manager=None))
    assert missing["anywidget"].startswith("/jupyter/bin/python -m pip install anywidget==0.11.0")
    assert "/jupyter/bin/python -m pip install jupyterlab_widgets" in missing["ipywidgets"]


@pytest.mark.parametrize(
    ("anywidget", "manager", "expected"),
    [
        ("0.11.9", "5.1", set()),
        ("0.9.18", "5.1", {"anywidget"}),
        ("1.11.0", "5.1", {"anywidget"}),
        ("0.11.0", "3.1.11", {"ipywidgets"}),
    ],
)
def test_versions_that_do_not_fit_together(anywidget, manager, expected):
    assert set(broken(server=server(anywidget=anywidget, manager=manager))) == expected


def test_jupyter_or_a_kernel_that_is_not_there():
    assert "another machine" in noted(server=None)["Jupyter"]
    assert "on the path" in noted(server=None, in_kernel=False)["Jupyter"]
    assert "cannot be a notebook's kernel" in noted(packages={})["kernel"]


def test_jax():
    assert "JAX" in broken(jax=Jax(error="No module named 'jax'"))
    assert "unset it" in broken(jax=Jax(error="no backend"), jax_platforms="tpu")["JAX"]
    assert "cuda13" in broken(gpus=["NVIDIA H100"])["JAX"]
    assert "JAX_PLATFORMS" in noted(gpus=["NVIDIA H100"], jax_platforms="cpu")["JAX"]
    assert broken(gpus=["NVIDIA H100"], jax=Jax("gpu", ["NVIDIA H100"])) == {}


def test_inventory_hosts_and_ssh():
    assert "this machine alone" in noted(inventory=None, hosts=[])["inventory"]
    assert set(broken(inventory_error="line 3: no cluster")) == {"inventory"}
    assert "ssh box.example.org" in broken(hosts=[replace(WELL.hosts[0], key=False)])["host box"]
    assert set(broken(hosts=[replace(WELL.hosts[0], lookup="bad configuration")])) == {"host box"}
    assert "ssh" in noted(ssh=None)
    assert "ssh" in broken(ssh=None, hosts=[replace(WELL.hosts[0], transport="openssh")])


def test_disk():
    assert broken(free={"/a": None}) == {
        "folder": "change its owner or mode: runs and settings are written there"
    }
    assert "disk" in noted(free={"/a": 2 * GIB})
    assert "disk" in broken(free={"/a": GIB // 4})


def test_the_report_as_text_table_and_values():
    report = Report(
        check(
            replace(WELL, inventory_error="<b>line 3\nno\x1b[2J"),
        )
    )
    assert "✗  inventory" in str(report)
    assert "→ mend the file" in str(report)
    assert str(report).endswith("broken: inventory")
    page = report._repr_html_()
    assert "&lt;b&gt;line 3" in page
    assert "<b>" not in page
    assert "\x1b" not in page + str(report)
    assert report.plain()["broken"] == 1
    assert {"what", "level", "found", "fix"} == set(report.plain()["checks"][0])


def test_this_machine_is_looked_at_without_jax_here(tmp_path, monkeypatch):
    """For real, in a process of its own: with an inventory whose host nobody knows."""
    config = tmp_path / "ssh_config"
    config.write_text(f"Host box\n  HostName 192.0.2.1\n  UserKnownHostsFile {tmp_path}/none\n")
    inventory = tmp_path / "hosts.yaml"
    inventory.write_text(
        "clusters: {c: {root: /r, env: {WANDB_API_KEY: 0123secret0123}}}\n"
        "hosts: {box: {ssh: box, cluster: c}}\n"
    )
    code = (
        "import sys; from theseus.cli.call import execute; status = execute(['doctor', '--json']);"
        "assert 'jax' not in sys.modules; sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "THESEUS_CONFIG": str(inventory),
            "THESEUS_SSH_CONFIG": str(config),
            "XDG_STATE_HOME": str(tmp_path / "state"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    found = {one["what"]: one for one in json.loads(done.stdout)["checks"]}
    assert found["host box"]["level"] == "broken"
    assert found["host box"]["fix"].startswith("ssh box")
    assert found["JAX"]["found"].startswith("cpu")
    assert "jupyterlab" in found["Jupyter"]["found"]
    assert found["anywidget"]["level"] == found["ipywidgets"]["level"] == "ok"
    assert "broken: host box" in done.stderr
    assert "0123secret0123" not in done.stdout + done.stderr


def test_an_inventory_with_a_mistake_is_a_finding_and_no_failure(tmp_path, monkeypatch):
    file = tmp_path / "hosts.yaml"
    file.write_text("hosts: {box: {ssh: box, clutser: c}}\n")
    monkeypatch.setenv("THESEUS_CONFIG", str(file))
    monkeypatch.setattr("theseus._doctor_facts._jax", lambda: Jax("cpu", ["cpu"]))
    facts = gather()
    assert "clutser" in facts.inventory_error
    assert "inventory" in {one.what for one in check(facts) if one.level == "broken"}
