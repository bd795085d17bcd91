"""What SLURM's tools print, from public reports: GPUs of any spelling, node states, jobs."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theseus.dispatch.providers import slurm_parse as parse

CASES = json.loads((Path(__file__).parent / "cases" / "slurm.json").read_text("utf-8"))


def _gpus(line: str) -> dict[str, int]:
    (node,) = parse.parse_nodes(line)
    total = sum(node.gpus.values())
    return {"total": total, "free": total - sum((node.used or {}).values())}


def _id(text: str) -> dict[str, str | None] | None:
    found = parse.parse_job_id(text)
    return {"id": found[0], "cluster": found[1]} if found else None


READERS = {
    "gres": parse.parse_gres,
    "gres_used": parse.parse_gres,
    "node_state": parse.node_state,
    "sbatch_id": _id,
    "job_state": parse.job_state,
    "node_line_cfgtres": _gpus,
    "node_line_no_gpu_in_tres": _gpus,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['what']} {case['input'][:50]}")
def test_a_reported_line_is_read_right(case):
    assert READERS[case["what"]](case["input"]) == case["want"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("gpu:3090:3(IDX:0-1,3)", {"3090": 3}),
        ("gpu:fake1:0(IDX:N/A),gpu:fake2:0(IDX:N/A)", {"fake1": 0, "fake2": 0}),
        ("gpu:nvidia_a100_80gb_pcie:4(S:0,2),gpu:nvidia_a100_80gb_pcie:2", {"nvidia_a100_80gb_pcie": 6}),
        ("gres:gpu:h100:2", {"h100": 2}),
        ("gres/gpu:h200:1", {"h200": 1}),
        ("gres/gpu=2", {"": 2}),
        ("gpu", {"": 1}),
        ("gpu:h100", {"h100": 1}),
        ("lscratch:3570,shard:40,craynetwork:4", {}),
        ("N/A", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_gpus_are_counted_per_type(text, want):
    assert parse.parse_gres(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("gres/gpu=1,gres/gpu:nvidia_geforce_rtx_2080_ti=1", ({"nvidia_geforce_rtx_2080_ti": 1}, 1)),
        ("cpu=16,gres/gpu=3", ({}, 3)),
        ("gres/gpu:a100=2,gres/gpu:v100=1", ({"a100": 2, "v100": 1}, 3)),
        ("cpu=4,mem=15000M,billing=4", ({}, 0)),
        ("", ({}, 0)),
    ],
)  # fmt: skip
def test_typed_and_untyped_tres_are_not_added(text, want):
    assert parse.tres_gpus(text) == want


def test_a_job_that_named_no_type_still_uses_a_gpu_of_the_nodes_only_type():
    line = (
        "NodeName=n1 Gres=gpu:h200:8 State=MIXED "
        "CfgTRES=cpu=64,gres/gpu=8,gres/gpu:h200=8 AllocTRES=cpu=16,gres/gpu=3"
    )
    assert parse.parse_nodes(line)[0].used == {"h200": 3}


def test_where_two_types_leave_a_doubt_gres_decides():
    line = (
        "NodeName=n1 Gres=gpu:a:4,gpu:b:4 GresUsed=gpu:a:1(IDX:0),gpu:b:2(IDX:0-1) State=MIXED "
        "CfgTRES=cpu=64,gres/gpu=8 AllocTRES=cpu=16,gres/gpu=3"
    )
    assert parse.parse_nodes(line)[0].used == {"a": 1, "b": 2}


def test_where_nothing_decides_each_type_may_be_the_one_in_use():
    line = "NodeName=n1 Gres=gpu:a:4,gpu:b:4 State=MIXED CfgTRES=gres/gpu=8 AllocTRES=gres/gpu=3"
    assert parse.parse_nodes(line)[0].used == {"a": 3, "b": 3}


def test_a_node_that_says_nothing_of_its_use_is_left_to_the_queue():
    assert parse.parse_nodes("NodeName=n1 Gres=gpu:a:4 State=MIXED")[0].used is None


def test_a_line_of_a_real_cluster_is_read_with_its_spaces_and_marks():
    line = (
        "NodeName=n7 Arch=x86_64 CoresPerSocket=4  CPUAlloc=4 CPUEfctv=4 CPUTot=4 CPULoad=0.01 "
        "AvailableFeatures=a,b ActiveFeatures=a Gres=(null) GresDrain=N/A GresUsed=gpu:0 "
        "NodeAddr=10.0.0.7 Version=25.11.2 OS=Linux 7.0.0-22-generic #22-Ubuntu SMP "
        "PREEMPT_DYNAMIC Mon May 25 15:54:34 UTC 2026  RealMemory=15000 AllocMem=1000 "
        "State=ALLOCATED ThreadsPerCore=1 Partitions=main,wrk-1  BootTime=2026-06-01T00:00:00 "
        "CfgTRES=cpu=4,mem=15000M,billing=4 AllocTRES=cpu=4,mem=1000M "
        "Comment=a=b Reason=replacing NodeName=n2 per ticket State=IDLE [root@2026-06-02]"
    )
    (node,) = parse.parse_nodes(line)
    assert (node.name, node.state, node.use) == ("n7", "ALLOCATED", "later")
    assert (node.cpus, node.cpus_free, node.memory, node.memory_free) == (4, 0, 15000, 14000)
    assert (node.partitions, node.features, node.gpus) == (("main", "wrk-1"), ("a",), {})
    assert node.address == "10.0.0.7"


def test_an_old_slurm_leaves_out_what_is_reserved_for_the_system():
    line = (
        "NodeName=n1 CPUAlloc=8 CPUTot=64 Version=21.08.8 RealMemory=256000 AllocMem=0 "
        "State=MIXED ThreadsPerCore=2 CoreSpecCount=8 MemSpecLimit=16000"
    )
    (node,) = parse.parse_nodes(line)
    assert (node.cpus, node.cpus_free, node.memory_free) == (48, 40, 240000)


def test_a_partition_may_have_an_odd_name():
    text = (
        "PartitionName=CPU nodes (amd) AllowGroups=ALL Default=NO MaxNodes=4 State=UP\n"
        "PartitionName=gpu AllowGroups=ALL Default=YES MaxNodes=UNLIMITED State=DRAIN DefMemPerCPU=4000\n"
    )
    amd, gpu = parse.parse_partitions(text)
    assert (amd.name, amd.default, amd.up, amd.most_nodes) == ("CPU nodes (amd)", False, True, 4)
    assert (gpu.default, gpu.up, gpu.most_nodes, gpu.memory_per_cpu) == (True, False, None, 4000)


@pytest.mark.parametrize(
    ("use", "states"),
    [
        ("now", "idle mix mix- IDLE MIXED MIXED+PLANNED IDLE+CLOUD MIXED+CLOUD idle-"),
        ("later", "comp alloc+ ALLOCATED ALLOCATED+ idle# mix~ IDLE+PLANNED IDLE+COMPLETING plnd"),
        ("later", "IDLE+CLOUD+POWERED_DOWN MIXED+CLOUD+POWERING_UP ALLOCATED+COMPLETING"),
        ("never", "down drain drng fail failg futr maint npc pow_dn pow_up resv unk inval"),
        ("never", "idle! idle% idle$ idle@ idle^ mix* IDLE*+CLOUD DOWN+DRAIN MIXED+RESERVED"),
        ("never", "IDLE+MAINTENANCE IDLE+NOT_RESPONDING MIXED+DRAIN IDLE+REBOOT_ISSUED"),
    ],
)
def test_a_node_state_says_whether_it_can_be_used(use, states):
    assert {state: parse.node_state(state) for state in states.split()} == dict.fromkeys(
        states.split(), use
    )


def test_no_state_at_all_is_never():
    assert parse.node_state("") == "never"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("queued", "PD PENDING RD RF RH RQ SE"),
        ("running", "R RUNNING CF CONFIGURING CG RS SI SO S ST SUSPENDED"),
        ("finished", "CD COMPLETED"),
        ("failed", "BF DL F FAILED NF OOM TO TIMEOUT OUT_OF_ME+"),
        ("cancelled", "CA CANCELLED"),
        ("lost", "PR PREEMPTED"),
        ("unknown", "RV REVOKED BRANDNEW COMPLETININVALID C+"),
    ],
)
def test_every_word_for_a_job_is_one_of_our_states(state, words):
    assert {word: parse.job_state(word) for word in words.split()} == dict.fromkeys(
        words.split(), state
    )
    assert parse.job_state("") == "unknown"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("75168975;clustername\n", ("75168975", "clustername")),
        ("sbatch: no partition specified, using default partition m100_all_serial\n7\n", ("7", None)),
        ("  12  \n", ("12", None)),
        ("12\n13\n", None),
        ("12 jobs\n", None),
    ],
)  # fmt: skip
def test_an_id_is_a_whole_line(text, want):
    assert parse.parse_job_id(text) == want


def test_an_odd_job_name_moves_no_column():
    mark = parse.SEPARATOR
    text = f"CLUSTER: amarel\n1{mark}RUNNING{mark}my job | 3, x{mark}None\n\nsqueue: error: y\n"
    assert parse.parse_rows(text, 4) == [("1", "RUNNING", "my job | 3, x", "None")]


def test_holders_are_counted_over_nodes_and_jobs():
    rows = [("ada", "2", "gres:gpu:h100:4"), ("bob", "1", "N/A"), ("ada", "1", "gres/gpu:h100:1")]
    assert parse.holders(rows) == {"ada": 9}


def test_an_estimate_is_read_where_there_is_one():
    text = "sbatch: Job 2 to start at 1796090520 using 2 processors on nodes n[1-2] in partition g"
    assert parse.parse_estimate(text) == 1796090520
    assert parse.parse_estimate("allocation failure: Requested node configuration") is None
    assert parse.parse_time("N/A") is None


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("n[1-3,07],login", ("n1", "n2", "n3", "n07", "login")),
        ("rack[1-2]-n[08-09]", ("rack1-n08", "rack1-n09", "rack2-n08", "rack2-n09")),
        ("", ()),
    ],
)
def test_a_host_list_is_spelled_out(text, want):
    assert parse.expand_hosts(text) == want


@given(st.text(alphabet=st.sampled_from("gpu:a1()=,/+*~- \n\x1f[]NodeName")) | st.text())
def test_no_text_is_an_error(text):
    parse.parse_gres(text)
    parse.tres_gpus(text)
    parse.parse_nodes(
        text + f"\nNodeName={text}\nNodeName=a Gres={text} GresUsed={text} State={text}"
    )
    parse.parse_partitions(f"PartitionName={text} {text}")
    parse.node_state(text)
    parse.job_state(text)
    parse.parse_job_id(text)
    parse.holders([(text, text, text)])
    parse.expand_hosts(text)
    parse.parse_estimate(text)
    parse.parse_time(text)
