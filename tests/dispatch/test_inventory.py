"""The inventory: the seed's file, every key, and mistakes told with their line and a remedy."""

import itertools
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from theseus.dispatch import inventory as module
from theseus.dispatch.inventory import (
    InventoryError,
    inventory_path,
    load_inventory,
    parse_inventory,
    path_to_write,
)
from theseus.dispatch.secrets import MissingSecretError, Secret

SEED = Path(__file__).parents[1] / "seeds" / "remote-training.txt"
PATH = Path("theseus.yaml")


@pytest.fixture(autouse=True)
def _a_home_without_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("THESEUS_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()


def parsed(text):
    return parse_inventory(dedent(text), PATH)


def host(text, name="box"):
    indented = "\n".join(f"    {line}" for line in dedent(text).strip("\n").splitlines())
    return parsed(
        f"clusters:\n  lab: {{root: /r, work: /w}}\nhosts:\n  {name}:\n{indented}\n"
    ).hosts[name]


def mistakes(text):
    with pytest.raises(InventoryError) as error:
        parsed(text)
    return str(error.value)


def host_mistakes(text):
    with pytest.raises(InventoryError) as error:
        host(text)
    return str(error.value)


# The seed


def seed_file():
    """Restore the indentation that the seed lost: sections, names, keys, and keys of chips."""
    lines = SEED.read_text().splitlines()
    start = lines.index("clusters:")
    depth = {"clusters:": 0, "hosts:": 0}
    names = ("mycoolcluster:", "mycoolcomputor:", "mywarmcomputor:")
    indented = []
    for line in itertools.takewhile(lambda line: not line.startswith("How do you"), lines[start:]):
        word = line.split()[0] if line.split() else ""
        level = depth.get(word, 1 if word in names else 3 if word == "h100:" else 2)
        indented.append("  " * level + line)
    return "\n".join(indented)


def test_the_seeds_file_reads_as_written():
    found = parsed(seed_file())
    assert list(found.hosts) == ["mycoolcomputor", "mywarmcomputor"]
    assert found.priority == ("mycoolcomputor", "mywarmcomputor")
    cool = found.hosts["mycoolcomputor"]
    assert cool.type == "plain"
    assert cool.ssh == "mycoolcomputor.jemoka.com"
    assert cool.chips == {"h100": 8}
    assert cool.uv_groups == ("all", "cuda13")
    assert cool.transport == "auto"
    assert cool.cluster is found.clusters["mycoolcluster"]
    assert (cool.cluster.root, cool.cluster.work, cool.cluster.log) == (
        "/home/houjun/root",
        "/home/houjun/work",
        "/home/houjun/log",
    )


# Every key


def test_every_key_of_a_cluster():
    cluster = parsed("""
        clusters:
          lab:
            root: ~/theseus
            work: $SCRATCH/my work
            log: /log
            data: /data
            checkpoints: /checkpoints
            results: /results
            share: /share
            env: {OMP_NUM_THREADS: 8}
        hosts:
          box: {ssh: box, cluster: lab}
    """).clusters["lab"]
    assert cluster == module.Cluster(
        "lab",
        root="~/theseus",
        work="$SCRATCH/my work",
        log="/log",
        data="/data",
        checkpoints="/checkpoints",
        results="/results",
        share="/share",
        env={"OMP_NUM_THREADS": "8"},
    )


def test_a_cluster_needs_its_root_only():
    cluster = parsed("clusters: {lab: {root: /r/}}\nhosts: {box: {ssh: b, cluster: lab}}").clusters[
        "lab"
    ]
    assert (cluster.root, cluster.work, cluster.log) == ("/r/", "/r/work", None)


def test_every_key_of_a_plain_host():
    box = host("""
        ssh: ada@box.example.org
        cluster: lab
        type: plain
        chips: {h100: 8, cpu: 64}
        uv_groups: [all, cuda12]
        env: {A: b}
        python: ~/env/bin/python
        setup: |
          module load cuda
          # a comment of the shell
        transport: openssh
    """)
    assert box.ssh == "ada@box.example.org"
    assert box.chips == {"h100": 8, "cpu": 64}
    assert box.python == "~/env/bin/python"
    assert box.setup == "module load cuda\n# a comment of the shell\n"
    assert box.transport == "openssh"
    assert (box.slurm, box.volcano) == (None, None)


def test_every_key_of_slurm():
    box = host("""
        ssh: login
        cluster: lab
        type: slurm
        partitions: [gpu, "CPU nodes (amd)", no]
        cpu_partitions: [cpu]
        account: ada
        qos: high
        mem: 64G
        time: 2:00:00
        exclude: n[1-4]
        constraint: "h100&ib"
        extra: [--reservation=mine, --exclusive]
    """)
    assert box.slurm == module.SlurmSettings(
        partitions=("gpu", "CPU nodes (amd)", "no"),
        cpu_partitions=("cpu",),
        account="ada",
        qos="high",
        mem="64G",
        time="2:00:00",
        exclude=("n[1-4]",),
        constraint="h100&ib",
        extra=("--reservation=mine", "--exclusive"),
    )


def test_every_key_of_volcano():
    box = host("""
        cluster: lab
        type: volcano
        image: registry.example.org/jax:1
        pvc_name: claim
        pvc_mount_path: /mnt
        namespace: team
        queue: research
        num_nodes: 4
        gpus_per_node: 8
        gpu_resource_key: nvidia.com/h100
        cpu: 16
        memory: 64Gi
        shm_size: 8Gi
        service_account: runner
        priority_class: high
        node_selector: {pool: h100, spot: true}
        tolerations: [{key: gpu, operator: Exists, tolerationSeconds: 60}]
        labels: {team: lm}
        context: prod
        kubeconfig: ~/.kube/prod
        rdma: {rdma/hca: 1}
        chips: {h100: 32}
    """)
    assert box.ssh is None
    assert box.transport == "local"
    assert box.volcano == module.VolcanoSettings(
        image="registry.example.org/jax:1",
        pvc_name="claim",
        pvc_mount_path="/mnt",
        namespace="team",
        queue="research",
        num_nodes=4,
        gpus_per_node=8,
        gpu_resource_key="nvidia.com/h100",
        cpu="16",
        memory="64Gi",
        shm_size="8Gi",
        service_account="runner",
        priority_class="high",
        node_selector={"pool": "h100", "spot": "true"},
        tolerations=({"key": "gpu", "operator": "Exists", "tolerationSeconds": 60},),
        labels={"team": "lm"},
        context="prod",
        kubeconfig="~/.kube/prod",
        rdma={"rdma/hca": 1},
    )


def test_rdma_may_be_switched_on():
    assert host(
        "{cluster: lab, type: volcano, image: i, pvc_name: p, rdma: true}"
    ).volcano.rdma == {"rdma/rdma_shared_device_a": 1}


def test_a_partition_may_be_called_the_default_one():
    box = host("""
        {ssh: l, cluster: lab, type: slurm, partitions: [long, {name: gpu, default: true}]}
    """)
    assert box.slurm.partitions == ("gpu", "long")


@pytest.mark.parametrize(
    ("entry", "queues"),
    [
        ("{ssh: l, cluster: lab, type: plain}", ()),
        ("{ssh: l, cluster: lab, type: slurm}", ()),
        (
            "{ssh: l, cluster: lab, type: slurm, partitions: [b, a], cpu_partitions: [c, a]}",
            ("b", "a", "c"),
        ),
        ("{cluster: lab, type: volcano, image: i, pvc_name: p}", ("default",)),
        ("{cluster: lab, type: volcano, image: i, pvc_name: p, queue: big}", ("big",)),
    ],
)
def test_what_a_run_may_wait_in(entry, queues):
    known = parsed(f"""
    clusters: {{lab: {{root: /r, work: /w}}}}
    hosts:
      box: {entry}
    """)
    assert known.hosts["box"].queues == queues


def test_what_is_not_said_is_left_to_the_cluster():
    box = host("{ssh: login, cluster: lab, type: slurm}")
    assert box.slurm == module.SlurmSettings()


@pytest.mark.parametrize("time", ["30", "2:30", "2:00:00", "1-12", "14-0", "1-12:30", "UNLIMITED"])
def test_a_time_limit_is_as_slurm_writes_it(time):
    assert host(f"{{ssh: l, cluster: lab, type: slurm, time: {time}}}").slurm.time == time


def test_a_local_host_needs_nothing():
    found = parsed("hosts: {here: {type: local}}")
    assert found.hosts["here"].transport == "local"
    assert found.hosts["here"].cluster.name == "local"
    assert list(found.clusters) == ["local"]


def test_a_local_host_takes_a_cluster_called_local():
    found = parsed("clusters: {local: {root: /r}}\nhosts: {here: {type: local}}")
    assert found.hosts["here"].cluster.root == "/r"
    assert found.hosts["here"].cluster is found.clusters["local"]


def test_priority_comes_first_and_the_others_follow_in_order():
    found = parsed("""
        clusters: {lab: {root: /r}}
        hosts:
          a: {ssh: a, cluster: lab}
          b: {ssh: b, cluster: lab}
          c: {ssh: c, cluster: lab}
        priority: [c]
    """)
    assert found.priority == ("c", "a", "b")


def test_gres_types_are_mapped_to_chips_either_way_round():
    found = parsed("""
        hosts: {here: {type: local}}
        gres_mapping:
          a100l: a100-sxm4-80gb
          h100: nvidia_h100_80gb_hbm3
          v100: v100-sxm2-32gb
    """)
    assert found.gres_mapping == {
        "a100l": "a100-sxm4-80gb",
        "nvidia_h100_80gb_hbm3": "h100",
        "v100": "v100-sxm2-32gb",
    }


def test_anchors_and_merges_share_settings():
    found = parsed("""
        clusters: {lab: {root: /r}}
        hosts:
          a: &a {ssh: a, cluster: lab, chips: {h100: 8}}
          b: {<<: *a, ssh: b}
    """)
    assert (found.hosts["b"].ssh, found.hosts["b"].chips) == ("b", {"h100": 8})


def test_an_environment_is_the_clusters_with_the_hosts_on_top():
    found = parsed("""
        clusters: {lab: {root: /r, env: {A: 1, B: 1}}}
        hosts: {box: {ssh: b, cluster: lab, env: {B: 2}}}
    """)
    assert found.hosts["box"].environment == {"A": "1", "B": "2"}


@pytest.mark.parametrize(
    "written", ["0010", "1e3", "yes", "2024-01-01", "1_000", "0x10", "12:30:00"]
)
def test_environment_values_are_as_written(written):
    assert host(f"{{ssh: b, cluster: lab, env: {{A: {written}}}}}").env == {"A": written}


def test_an_empty_environment_value_is_written_as_quotes():
    assert host('{ssh: b, cluster: lab, env: {A: ""}}').env == {"A": ""}
    assert 'an empty one is ""' in host_mistakes("{ssh: b, cluster: lab, env: {A: }}")


# Secrets


def test_a_variable_from_here_is_a_secret(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_123456789")
    box = host(
        "{ssh: b, cluster: lab, env: {HUB: '${oc.env:HF_TOKEN}', HEADER: 'Bearer ${oc.env:HF_TOKEN}'}}"
    )
    assert isinstance(box.env["HUB"], Secret)
    assert box.env["HUB"].reveal() == "hf_123456789"
    assert box.env["HEADER"].reveal() == "Bearer hf_123456789"
    assert "hf_123456789" not in repr(box)


def test_a_default_stands_in_for_a_variable_that_is_not_set():
    env = host("""
        ssh: b
        cluster: lab
        env: {A: "${oc.env:NOT_SET,plain}", B: "${oc.env:NOT_SET, 'a, b'}", C: "${oc.env:NOT_SET,}"}
    """).env
    assert [env[name].reveal() for name in "ABC"] == ["plain", "a, b", ""]


def test_names_that_look_secret_are_secrets():
    env = host("{ssh: b, cluster: lab, env: {WANDB_API_KEY: abc, WANDB_MODE: offline}}").env
    assert env["WANDB_API_KEY"] == Secret("abc")
    assert env["WANDB_MODE"] == "offline"


def test_an_unset_variable_is_told_when_it_is_needed():
    box = host("{ssh: b, cluster: lab, env: {A: '${oc.env:HF_TOKEN}'}}")
    with pytest.raises(MissingSecretError) as error:
        box.env["A"].reveal()
    message = str(error.value)
    assert "theseus.yaml, line 5: hosts.box.env.A: $HF_TOKEN is not set here" in message
    assert "export HF_TOKEN=" in message


def test_a_secret_has_no_place_where_it_would_be_shown(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_123456789")
    text = host_mistakes("{ssh: b, cluster: lab, type: slurm, account: '${oc.env:HF_TOKEN}'}")
    assert "a secret ($HF_TOKEN) may stand under env only" in text
    assert "hf_123456789" not in text


def test_an_ordinary_variable_may_be_part_of_a_folder(monkeypatch):
    monkeypatch.setenv("GROUP", "lm")
    found = parsed(
        "clusters: {lab: {root: '/data/${oc.env:GROUP}/$USER'}}\nhosts: {b: {ssh: b, cluster: lab}}"
    )
    assert found.clusters["lab"].root == "/data/lm/$USER"


def test_what_a_variable_holds_is_not_looked_into_again(monkeypatch):
    monkeypatch.setenv("A", "${oc.env:HOME}")
    assert (
        host("{ssh: b, cluster: lab, env: {X: '${oc.env:A}'}}").env["X"].reveal()
        == "${oc.env:HOME}"
    )


def test_dollars_of_the_host_stay():
    env = host(r"{ssh: b, cluster: lab, env: {A: '${HOME}/x:$PATH', B: '\${oc.env:A}'}}").env
    assert env == {"A": "${HOME}/x:$PATH", "B": "${oc.env:A}"}


@pytest.mark.parametrize(
    "written",
    [
        "${oc.decode:x}",
        "${env:HOME}",
        "${oc.env:}",
        "${oc.env:a b}",
        "${oc.env:A,${oc.env:HOME}}",
        "${oc.env:HOME",
    ],
)
def test_other_interpolations_are_mistakes(written):
    assert "theseus.yaml, line 5: hosts.box.env.X" in host_mistakes(
        f"{{ssh: b, cluster: lab, env: {{X: '{written}'}}}}"
    )


# Mistakes

BOX = "clusters: {lab: {root: /r}}\nhosts: {box: {ssh: b, cluster: lab}}\n"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (
            "cluster: {lab: {root: /r}}",
            "line 1: an inventory has no 'cluster', did you mean 'clusters'?",
        ),
        (
            "clusters:\n  lab:\n    root: /r\n    wrok: /w",
            "line 4: clusters.lab has no 'wrok', did you mean 'work'?",
        ),
        ("clusters: {lab: {work: /r}}", "line 1: clusters.lab: no root"),
        ("clusters: {lab: {root: }}", "clusters.lab.root: expected a folder; nothing is written"),
        (
            "clusters: {lab: {root: scratch/x}}",
            "begins with /, ~ or $: did you mean '~/scratch/x'?",
        ),
        (
            "clusters: {lab: [root]}",
            "clusters.lab: expected keys and values such as root: ~/theseus, not a list",
        ),
        ("clusters: lab", "clusters: expected keys and values"),
        ("- a\n- b", "expected keys and values, not a list"),
        (
            BOX + "priority: [bxo]",
            "line 3: priority[0]: no host is called 'bxo', did you mean 'box'?",
        ),
        (BOX + "priority: [box, box]", "'box' is there twice"),
        (BOX + "priority: box", "priority: expected a list such as [mybox, mycluster], not 'box'"),
        (
            BOX + "gres_mapping: {a: h1000}",
            "line 3: gres_mapping.a: no chip is called 'h1000', did you mean 'h100'?",
        ),
        ("hosts:\n  a: {}\n  a: {}", "line 3: 'a' is already there, in line 2"),
        ("hosts:\n  ? [a]\n  : b", "a key is a word, not a list"),
        ("hosts:\n\tbox: {}", "line 2: not YAML"),
        ("hosts: {", "not YAML"),
        ("a: 1\n---\nb: 2", "not YAML: but found another document"),
        ("hosts: &h\n  <<: *h", "merges itself"),
        (
            "clusters: {lab: {root: !!python/object:os.system x}}",
            "expected a folder, not 'tag:yaml.org",
        ),
        ('clusters: {lab: {root: "/a\\nb"}}', "on one line"),
        ('hosts: {"a\\nb": {type: local}}', "a name is a word"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_a_remedy(text, want):
    told = mistakes(text)
    assert want in told
    assert told.startswith("theseus.yaml")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (
            "ssh: b\ncluster: lba",
            "line 6: hosts.box.cluster: no cluster is called 'lba', did you mean 'lab'? (known: lab)",
        ),
        ("ssh: b", "line 5: hosts.box: no cluster: whose folders it uses (known: lab)"),
        ("cluster: lab", "hosts.box: no ssh: what `ssh` is called with, such as 'ssh: box'"),
        ("ssh: -oProxyCommand=x\ncluster: lab", "begins with '-'"),
        (
            "ssh: b\ncluster: lab\ntype: slrum",
            "line 7: hosts.box.type: no 'slrum', did you mean 'slurm'? (possible: local, plain, slurm, volcano)",
        ),
        (
            "ssh: b\ncluster: lab\nchip: {h100: 8}",
            "line 7: hosts.box has no 'chip', did you mean 'chips'?",
        ),
        (
            "ssh: b\ncluster: lab\nchips: {H100: 8}",
            "line 7: hosts.box.chips.H100: no chip is called 'H100', did you mean 'h100'?",
        ),
        (
            "ssh: b\ncluster: lab\nchips: {a100: 8}",
            "'a100' is more than one chip; name which: a100-sxm4-80gb",
        ),
        (
            "ssh: b\ncluster: lab\nchips: {h100: 0}",
            "expected a whole number of at least 1, not '0'",
        ),
        ("ssh: b\ncluster: lab\nchips: {h100: eight}", "not 'eight'"),
        (
            "ssh: b\ncluster: lab\nchips: h100",
            "expected keys and values such as h100: 8, not 'h100'",
        ),
        (
            "ssh: b\ncluster: lab\nuv_groups: cuda13",
            "expected a list such as [all, cuda13], not 'cuda13'",
        ),
        (
            "ssh: b\ncluster: lab\nuv_groups: [all, cuda12, cuda13]",
            "cuda12 and cuda13 exclude each other",
        ),
        ("ssh: b\ncluster: lab\nuv_groups: [--all-groups]", "no dependency group can be called"),
        ("ssh: b\ncluster: lab\ntransport: paramico", "no 'paramico', did you mean 'paramiko'?"),
        ("ssh: b\ncluster: lab\ntransport: local", "no 'local'"),
        ("ssh: b\ncluster: lab\npython: python3", "begins with /, ~ or $"),
        ("ssh: b\ncluster: lab\nenv: {MY-VAR: 1}", "no environment variable can have this name"),
        ("ssh: b\ncluster: lab\nenv: {A: [1]}", "expected a value, not a list"),
        (
            "ssh: b\ncluster: lab\npartitions: [gpu]",
            "line 7: hosts.box.partitions: for hosts of type slurm, and this one is plain",
        ),
        ("ssh: b\ncluster: lab\ntype: slurm\nmem: 64000", "a size with its unit, such as 64G"),
        ("ssh: b\ncluster: lab\ntype: slurm\ntime: 2h", "such as 2:00:00 or 14-0"),
        ("ssh: b\ncluster: lab\ntype: slurm\nextra: [-x]", "written like --reservation=mine"),
        ("ssh: b\ncluster: lab\ntype: slurm\nextra: [--output=/x]", "--output is set by theseus"),
        ("ssh: b\ncluster: lab\ntype: slurm\npartitions: [{default: true}]", "no name"),
        ("cluster: lab\ntype: volcano", "hosts.box: no image: a container image"),
        (
            "cluster: lab\ntype: volcano\nimage: i\npvc_name: p\nmemory: 64 GB",
            "such as 8, 500m or 64Gi",
        ),
        (
            "cluster: lab\ntype: volcano\nimage: i\npvc_name: p\ntolerations: [{kye: a}]",
            "tolerations[0] has no 'kye', did you mean 'key'?",
        ),
        (
            "type: local\nssh: b",
            "hosts.box.ssh: for hosts of type plain or slurm or volcano, and this one is local",
        ),
    ],
)
def test_a_mistake_of_a_host_is_told_with_its_line_and_a_remedy(text, want):
    assert want in host_mistakes(text)


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file():
    told = mistakes("""\
        clusters: {lab: {rot: /r}}
        hosts:
          box: {ssh: b, cluster: lab, chips: {h10: 8}}
        priorty: [box]
    """).splitlines()
    assert [line.split(":")[0] for line in told] == [
        "theseus.yaml, line 1",
        "theseus.yaml, line 1",
        "theseus.yaml, line 3",
        "theseus.yaml, line 4",
    ]


def test_many_mistakes_are_cut():
    told = mistakes("hosts:\n" + "".join(f"  h{number}: {{}}\n" for number in range(30)))
    assert len(told.splitlines()) == 13
    assert told.endswith("… and 48 more")


def test_a_host_that_is_not_there_is_told_with_the_nearest():
    with pytest.raises(InventoryError, match=r"theseus.yaml has no host 'bxo', did you mean 'box'"):
        parsed(BOX).host("bxo")


@settings(max_examples=200)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "clusters",
                        "hosts",
                        "priority",
                        "gres_mapping",
                        "root",
                        "ssh",
                        "type",
                        "cluster",
                        "env",
                        "chips",
                    ]
                )
                | st.text(max_size=5),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_any_yaml_is_an_inventory_or_a_mistake_that_is_told(data):
    with suppress(InventoryError):
        parse_inventory(yaml.safe_dump(data, allow_unicode=True), PATH)


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs"]), min_size=1))
def test_any_environment_value_survives(value):
    text = yaml.safe_dump({"hosts": {"here": {"type": "local", "env": {"A": value}}}})
    if "${" not in value and "://" not in value:
        assert parse_inventory(text, PATH).hosts["here"].env == {"A": value}


# Which file


def write(path, text="hosts: {here: {type: local}}"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_files_are_looked_for_in_order(tmp_path, monkeypatch):
    home = write(tmp_path / "home" / ".theseus.yaml")
    assert inventory_path() == home
    config = write(tmp_path / "home" / ".config" / "theseus" / "config.yaml")
    assert inventory_path() == config
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert inventory_path() == home
    xdg = write(tmp_path / "xdg" / "theseus" / "config.yaml")
    assert inventory_path() == xdg
    monkeypatch.setenv("THESEUS_CONFIG", str(write(tmp_path / "named.yaml")))
    assert inventory_path() == tmp_path / "named.yaml"
    assert inventory_path(write(tmp_path / "given.yaml")) == tmp_path / "given.yaml"


def test_a_named_file_that_is_not_there_is_a_mistake(tmp_path, monkeypatch):
    write(tmp_path / "theseus.yaml")
    with pytest.raises(
        InventoryError, match=r"no inventory .*theses.yaml, did you mean 'theseus.yaml'"
    ):
        load_inventory(tmp_path / "theses.yaml")
    monkeypatch.setenv("THESEUS_CONFIG", str(tmp_path / "other.yaml"))
    with pytest.raises(InventoryError, match=r"other.yaml \(\$THESEUS_CONFIG\)"):
        load_inventory()


def test_without_a_file_there_is_this_machine(tmp_path):
    found = load_inventory(root=Path("/data/theseus"))
    assert found.path is None
    assert found.priority == ("local",)
    local = found.hosts["local"]
    assert (local.type, local.ssh, local.transport) == ("local", None, "local")
    assert local.cluster.root == "/data/theseus"
    assert local.cluster.work.startswith(str(tmp_path / "home"))


def test_a_relative_state_folder_is_ignored(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert module.state_folder() == tmp_path / "home" / ".local" / "state" / "theseus"
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert module.state_folder() == Path("/state/theseus")


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "hosts:\n", "clusters: {lab: {root: /r}}"])
def test_a_file_without_hosts_leaves_this_machine(tmp_path, text):
    found = load_inventory(write(tmp_path / "a.yaml", text))
    assert list(found.hosts) == ["local"]


@pytest.mark.parametrize(
    "make", [lambda path: path.mkdir(), lambda path: path.write_bytes(b"\xff\xfe\xfa")]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, make):
    make(tmp_path / "a.yaml")
    with pytest.raises(InventoryError, match=r"a.yaml cannot be read"):
        load_inventory(tmp_path / "a.yaml")


def test_entries_go_to_the_file_in_use(tmp_path, monkeypatch):
    assert path_to_write() == tmp_path / "home" / ".theseus.yaml"
    config = write(tmp_path / "home" / ".config" / "theseus" / "config.yaml")
    assert path_to_write() == config
    monkeypatch.setenv("THESEUS_CONFIG", "~/new.yaml")
    assert path_to_write() == tmp_path / "home" / "new.yaml"
    assert path_to_write(Path("given.yaml")) == Path("given.yaml")


def test_the_word_inventory_costs_no_yaml():
    program = "import sys, theseus.dispatch.inventory; print('yaml' in sys.modules)"
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "False"
