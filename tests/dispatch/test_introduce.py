"""`hosts add`: what a machine says, the entry that follows, and a file that stays a person's own."""

import os
import shutil
import stat
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.dispatch.fakes import Gpus, Shell, program
from theseus.dispatch import _inventory_edit as edit
from theseus.dispatch._introduce_look import Python
from theseus.dispatch._inventory_edit import Entry, Line, with_entries
from theseus.dispatch.introduce import (
    Folders,
    Found,
    look,
    propose,
    questions,
    read,
    write_entry,
)
from theseus.dispatch.inventory import (
    Host,
    InventoryError,
    load_inventory,
    local_cluster,
    parse_inventory,
)
from theseus.dispatch.providers.programs import Report
from theseus.dispatch.providers.slurm_parse import parse_nodes, parse_partitions
from theseus.dispatch.transport import RemoteFileError, close_all, connect

GIB = 2**30
PATH = Path("theseus.yaml")
FOLDERS = Folders("~/theseus", "~/theseus/work", "~/theseus/log")
H100 = "NVIDIA H100 80GB HBM3"


class Machine(Shell):
    """A machine without a network, whose `$SCRATCH` is what a login shell would say."""

    scratch: str | None = None

    def resolve(self, path):
        if self.scratch is None:
            raise RemoteFileError("here", path, "cannot be resolved")
        return self.scratch


def parsed(text):
    return parse_inventory(dedent(text), PATH)


def entry_of(found, **options):
    return propose("box", found, FOLDERS, **options)


def host_of(proposal, name="box"):
    """Return what a reader of the proposed lines gets."""
    return parsed(proposal.text).hosts[name]


# Looking


def test_a_plain_machine_is_looked_at(tmp_path):
    gpus = Gpus(tmp_path / "machine", H100, 2)
    program(tmp_path / "bin", "uv", "#!/bin/sh\n")
    home = tmp_path / "my home"
    home.mkdir()
    path = f"{gpus.bin}:{tmp_path / 'bin'}:{os.environ['PATH']}"
    machine = Machine(PATH=path, FAKE_NVIDIA_SMI=str(gpus.state), HOME=str(home))
    machine.scratch = str(tmp_path)
    found = look(machine)
    assert found.home == str(home)
    assert found.gpus == (H100, H100)
    assert found.uv == str(tmp_path / "bin" / "uv")
    assert found.cpus == os.cpu_count()
    assert not found.is_slurm
    free = shutil.disk_usage(home).free
    assert set(found.free) == {"~", "$SCRATCH"}
    assert found.free["~"] == pytest.approx(free, rel=0.2)
    assert [label for label, _ in found.rows()][:3] == ["type", "machine", "GPUs"]
    assert ("GPUs", f"2 × {H100}") in found.rows()


def test_a_python_is_ready_when_it_has_jax_and_theseus(tmp_path):
    fake = '#!/bin/sh\n[ "$1" = -c ] && echo "3.12 ready /opt/env/bin/python3"\n'
    program(tmp_path / "bin", "python3", fake)
    machine = Machine(PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert look(machine).pythons[0] == Python("/opt/env/bin/python3", "3.12", is_ready=True)


def test_a_uv_in_the_home_folder_is_found_without_a_path(tmp_path):
    program(tmp_path / ".local" / "bin", "uv", "#!/bin/sh\n")
    machine = Machine(HOME=str(tmp_path), PATH="/usr/bin:/bin")
    assert look(machine).uv == str(tmp_path / ".local" / "bin" / "uv")


def test_a_folder_that_cannot_be_written_has_no_free_space(tmp_path):
    machine = Machine(HOME=str(tmp_path / "absent"))
    assert look(machine).free == {}


def test_a_real_slurm_is_looked_at(slurm):
    found = look(Machine(**slurm.environment, SINFO_FORMAT="%i", SLURM_CLUSTERS="elsewhere"))
    assert found.is_slurm
    assert {node.name: dict(node.gpus) for node in found.nodes} == {
        "n1": {"h100": 4},
        "n2": {"h100": 4},
    }
    assert "gpu" in [partition.name for partition in found.partitions]
    host = host_of(entry_of(found))
    assert host.type == "slurm"
    assert "gpu" in host.slurm.partitions
    assert host.chips == {"h100": 8}


def test_this_machine_is_looked_at_over_its_transport():
    try:
        found = look(connect(Host("local", "local", local_cluster(), transport="local")))
    finally:
        close_all()
    assert found.home == str(Path.home())
    assert found.cpus == os.cpu_count()
    assert host_of(entry_of(found)).ssh == "box"


def test_a_host_is_looked_at_over_ssh_whatever_its_login_shell(ssh):
    try:
        for name in ["box", *ssh.accounts]:
            found = look(name)
            assert found.home.startswith("/")
            assert found.cpus == os.cpu_count()
    finally:
        close_all()


@given(st.text(), st.integers(0, 255))
def test_any_answer_is_read(text, status):
    from theseus.dispatch.providers.programs import Section

    names = ["home", "machine", "processors", "memory", "free_home", "uv", "pythons", "devices", "driver", "gpus", "nodes", "partitions"]  # fmt: skip
    found = read(Report(tuple(Section(name, text, status) for name in names), ""), "/scratch")
    assert isinstance(found, Found)
    assert isinstance(entry_of(found).text, str)


def test_an_alias_is_never_an_option_of_ssh():
    with pytest.raises(
        InventoryError, match="'-oProxyCommand=x' is nothing that `ssh` can be called"
    ):
        look("-oProxyCommand=x")


# Proposing


def test_a_plain_machine_with_gpus():
    found = Found(home="/home/ada", uv="/usr/bin/uv", driver=580, gpus=(H100,) * 8)
    assert entry_of(found).text == dedent("""\
        clusters:
          box:
            root: ~/theseus
            work: ~/theseus/work
            log: ~/theseus/log

        hosts:
          box:
            ssh: box
            cluster: box
            type: plain
            chips: {h100: 8}
            uv_groups: [all, cuda13]  # for driver 580
          local:
            type: local  # this machine
    """)


@pytest.mark.parametrize(("driver", "flavour"), [(580, "cuda13"), (590, "cuda13"), (570, "cuda12"), (525, "cuda12"), (None, "cuda12")])  # fmt: skip
def test_the_flavour_of_cuda_follows_the_driver(driver, flavour):
    found = Found(uv="/usr/bin/uv", driver=driver, gpus=(H100,))
    assert host_of(entry_of(found)).uv_groups == ("all", flavour)


def test_an_old_driver_is_told():
    proposal = entry_of(Found(uv="/usr/bin/uv", driver=470, gpus=("Tesla T4",)))
    assert "the NVIDIA driver is 470: JAX needs 525" in proposal.notes[0]


def test_a_machine_without_gpus_runs_on_processors():
    assert host_of(entry_of(Found(uv="/usr/bin/uv"))).uv_groups == ("all", "cpu")


def test_a_product_that_is_not_in_the_catalogue_is_told_and_not_guessed():
    proposal = entry_of(Found(uv="/uv", driver=580, gpus=("NVIDIA Future X1", H100)))
    assert host_of(proposal).chips == {"h100": 1}
    assert proposal.notes == (
        "1 × 'NVIDIA Future X1' is not in the catalogue of chips: it is used under this name",
    )


def test_a_prepared_python_stands_in_for_uv():
    ready = Python("/opt/my env/bin/python", "3.12", is_ready=True)
    host = host_of(
        entry_of(Found(pythons=(Python("/usr/bin/python3", "3.11", is_ready=False), ready)))
    )
    assert (host.python, host.uv_groups) == ("/opt/my env/bin/python", ())


def test_without_uv_and_python_it_is_said_how_to_get_them():
    (note,) = entry_of(Found()).notes
    assert "install uv (pip install --user uv" in note


def test_what_could_not_be_told_is_told():
    assert entry_of(Found(uv="/uv", trouble=("SLURM's nodes: timeout",))).notes == (
        "could not be told: SLURM's nodes: timeout",
    )


def test_only_the_folders_are_asked_for():
    asked = questions(Found(free={"~": 5 * GIB}))
    assert [(one.key, one.proposed) for one in asked] == [
        ("root", "~/theseus"),
        ("work", "~/theseus/work"),
        ("log", "~/theseus/log"),
    ]
    roomier = Found(free={"~": 5 * GIB, "$SCRATCH": 900 * GIB})
    assert questions(roomier)[0].proposed == "$SCRATCH/theseus"


def cluster(*nodes, partitions=("PartitionName=gpu Default=YES State=UP",)):
    return Found(
        uv="/usr/bin/uv",
        nodes=parse_nodes("\n".join(nodes)),
        partitions=parse_partitions("\n".join(partitions)),
    )


def test_a_slurm_cluster_with_its_partitions_and_gres_names():
    found = cluster(
        "NodeName=n1 Gres=gpu:nvidia_a100-sxm4-80gb:8(S:0-1) State=IDLE Partitions=long,gpu",
        "NodeName=n2 Gres=gpu:nvidia_a100-sxm4-80gb:8(S:0-1) State=DOWN Partitions=gpu",
        "NodeName=n3 Gres=(null) State=IDLE Partitions=CPU nodes, (amd),cpu",
        partitions=(
            "PartitionName=long Default=NO State=UP",
            "PartitionName=gpu Default=YES State=UP",
            "PartitionName=cpu Default=NO State=UP",
            "PartitionName=old Default=NO State=DOWN",
        ),
    )
    proposal = entry_of(found)
    assert "    partitions: [gpu, long]  # gpu: 16 × nvidia_a100-sxm4-80gb; long: 8 × nvidia_a100-sxm4-80gb\n" in proposal.text  # fmt: skip
    host = host_of(proposal)
    assert host.slurm.partitions == ("gpu", "long")
    assert host.slurm.cpu_partitions == ("cpu",)
    assert host.chips == {"a100-sxm4-80gb": 16}
    assert host.uv_groups == ("all", "cuda12")
    assert proposal.notes == ()


def test_a_gres_name_that_is_a_chips_own_name_is_that_chip_and_the_others_are_told():
    proposal = entry_of(cluster("NodeName=n1 Gres=gpu:h100:4 State=IDLE Partitions=gpu"))
    assert host_of(proposal).chips == {"h100": 4}
    assert (
        "chips: {h100: 4}  # h100 may be h100-pcie, h100-nvl too: change it if so" in proposal.text
    )


def test_a_gres_name_of_a_family_is_left_to_the_person():
    proposal = entry_of(cluster("NodeName=n1 Gres=gpu:a100:4 State=IDLE Partitions=gpu"))
    assert host_of(proposal).chips == {}
    (note,) = proposal.notes
    assert "'a100' may be a100-sxm4-80gb or a100-sxm4-40gb" in note
    assert "'a100: a100-sxm4-80gb'" in note


def test_a_gres_name_that_the_file_explains_is_that_chip():
    inventory = parsed("hosts: {here: {type: local}}\ngres_mapping: {a100: a100-pcie-40gb}")
    proposal = entry_of(
        cluster("NodeName=n1 Gres=gpu:a100:4 State=IDLE Partitions=gpu"), inventory=inventory
    )
    assert "chips: {a100-pcie-40gb: 4}" in proposal.text


def test_gpus_without_a_type_and_unknown_ones_are_told():
    proposal = entry_of(cluster("NodeName=n1 Gres=gpu:4,gpu:1080ti:2 State=IDLE Partitions=gpu"))
    assert "4 GPUs have no type in SLURM" in proposal.notes[0]
    assert "'1080ti' is no chip that theseus knows" in proposal.notes[1]


def test_a_host_that_is_there_already_is_not_written_again():
    inventory = parsed("clusters: {lab: {root: /r}}\nhosts: {box: {ssh: b, cluster: lab}}")
    with pytest.raises(InventoryError, match=r"theseus.yaml has a host 'box' already"):
        entry_of(Found(), inventory=inventory)
    assert entry_of(Found(), inventory=inventory, name="other").host == "other"


def test_a_cluster_with_these_folders_is_used_again():
    inventory = parsed("""
        clusters:
          box: {root: /elsewhere}
          lab: {root: ~/theseus, work: ~/theseus/work, log: ~/theseus/log}
        hosts: {other: {ssh: b, cluster: lab}}
    """)
    proposal = entry_of(Found(uv="/uv"), inventory=inventory)
    assert [entry.section for entry in proposal.entries] == ["hosts"]
    assert Line("cluster", "lab") in proposal.entries[0].lines
    other = propose("box", Found(uv="/uv"), Folders("/r", "/w"), inventory=inventory)
    assert [(entry.section, entry.name) for entry in other.entries] == [
        ("clusters", "box-2"),
        ("hosts", "box"),
    ]


# Writing

FILE = """\
# My machines.
clusters:
    lab:   # the old one
        root: /home/ada/theseus
        work:    '/home/ada/work'

hosts:
    # bought in 2021
    old:
        ssh: old.example.org
        cluster: lab
        setup: |
            module load cuda
            # not a comment of YAML
        # retired:
        #   ssh: gone

# what comes first
priority: [old]
gres_mapping: {a100l: a100-sxm4-80gb}   # from the wiki
"""


def test_every_line_that_was_there_stays_where_it_was(tmp_path):
    path = tmp_path / "theseus.yaml"
    path.write_text(FILE)
    proposal = propose("new", Found(uv="/uv"), Folders("/r", "/w"), inventory=load_inventory(path))
    write_entry(path, proposal)
    diff = subprocess.run(
        ["diff", "-", str(path)], input=FILE, capture_output=True, text=True, check=False
    ).stdout
    assert "<" not in diff
    assert path.read_text() == FILE.replace(
        "        work:    '/home/ada/work'\n",
        "        work:    '/home/ada/work'\n    new:\n      root: /r\n      work: /w\n",
    ).replace(
        "        #   ssh: gone\n",
        "        #   ssh: gone\n    new:\n      ssh: new\n      cluster: new\n      type: plain\n"
        "      uv_groups: [all, cpu]\n",
    )
    found = load_inventory(path)
    assert list(found.hosts) == ["old", "new"]
    assert found.priority == ("old", "new")


def test_a_new_file_is_its_owners_alone_and_keeps_this_machine(tmp_path):
    path = tmp_path / "config" / "theseus.yaml"
    write_entry(path, entry_of(Found(uv="/uv")))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(load_inventory(path).hosts) == ["box", "local"]
    assert [other.name for other in path.parent.iterdir()] == ["theseus.yaml"]


def test_a_linked_file_stays_a_link_and_keeps_its_mode(tmp_path):
    real = tmp_path / "dotfiles" / "theseus.yaml"
    real.parent.mkdir()
    real.write_text("# mine\n")
    real.chmod(0o640)
    link = tmp_path / ".theseus.yaml"
    link.symlink_to(real)
    write_entry(link, entry_of(Found(uv="/uv")))
    assert link.is_symlink()
    assert real.read_text().startswith("# mine\n\nclusters:\n")
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_file_that_changes_meanwhile_is_left_alone(tmp_path, monkeypatch):
    path = tmp_path / "theseus.yaml"
    path.write_text("# first\n")
    monkeypatch.setattr(edit.os, "fsync", lambda _: path.write_text("# second\n"))
    with pytest.raises(InventoryError, match="changed by somebody else meanwhile"):
        write_entry(path, entry_of(Found(uv="/uv")))
    assert path.read_text() == "# second\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_appears_meanwhile_is_left_alone(tmp_path, monkeypatch):
    path = tmp_path / "theseus.yaml"
    monkeypatch.setattr(edit.os, "fsync", lambda _: path.write_text("# second\n"))
    with pytest.raises(InventoryError, match="cannot be written: File exists"):
        write_entry(path, entry_of(Found(uv="/uv")))
    assert path.read_text() == "# second\n"


BOX = Entry("hosts", "box", (Line("ssh", "box"), Line("chips", {"h100": 8})))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", "hosts:\n  box:\n    ssh: box\n    chips: {h100: 8}\n"),
        ("# mine\n", "# mine\n\nhosts:\n  box:\n    ssh: box\n    chips: {h100: 8}\n"),
        ("hosts:\n", "hosts:\n  box:\n    ssh: box\n    chips: {h100: 8}\n"),
        ("hosts: # none yet", "hosts: # none yet\n  box:\n    ssh: box\n    chips: {h100: 8}\n"),
        ("hosts:\n  a: {ssh: a}", "hosts:\n  a: {ssh: a}\n  box:\n    ssh: box\n    chips: {h100: 8}\n"),
        ("hosts:\r\n a:\r\n  ssh: a\r\n", "hosts:\r\n a:\r\n  ssh: a\r\n box:\r\n   ssh: box\r\n   chips: {h100: 8}\r\n"),
        (
            "hosts:\n  a: {ssh: a}\n\n  b: {ssh: b}\n\npriority: [a]\n",
            "hosts:\n  a: {ssh: a}\n\n  b: {ssh: b}\n\n  box:\n    ssh: box\n    chips: {h100: 8}\n\npriority: [a]\n",
        ),
    ],
)  # fmt: skip
def test_an_entry_goes_to_the_end_of_its_section(text, want):
    assert with_entries(text, [BOX]) == want


@pytest.mark.parametrize(
    "text",
    [
        "hosts: {a: {ssh: a}}\n",
        "{hosts: {a: {ssh: a}}}\n",
        "clusters: &c\n  a: {root: /r}\nhosts: *c\n",
        "hosts: ~\n",
        "clusters: {}\n...\n",
        "- a\n",
    ],
)
def test_what_cannot_be_added_to_is_left_and_the_lines_are_given(text):
    with pytest.raises(InventoryError) as error:
        with_entries(text, [BOX], PATH)
    assert "Add these lines yourself:\nhosts:\n  box:\n    ssh: box" in str(error.value)


def test_a_name_that_is_taken_is_not_overwritten():
    with pytest.raises(InventoryError, match="'box' is already in hosts"):
        with_entries("hosts:\n  box: {ssh: other}\n", [BOX])


names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)


@given(
    names,
    names,
    st.lists(names, max_size=3),
    st.dictionaries(names, st.integers(1, 99), max_size=3),
)
def test_any_words_come_back_from_the_file(name, value, many, counts):
    entry = Entry("hosts", name, (Line("a", value, "said"), Line("b", many), Line("c", counts)))
    found = yaml.load(with_entries(FILE, [entry]), Loader=yaml.BaseLoader)
    assert found["hosts"][name] == {
        "a": value,
        "b": many,
        "c": {key: str(count) for key, count in counts.items()},
    }
    assert found["hosts"]["old"] == yaml.load(FILE, Loader=yaml.BaseLoader)["hosts"]["old"]
