"""Which partition and GRES a request gets, and the reason that is given: without a cluster."""

import pytest

from theseus.dispatch.inventory import Cluster, Host, SlurmSettings
from theseus.dispatch.providers.request import need_of
from theseus.dispatch.providers.slurm_choose import choose, gpu_type
from theseus.dispatch.providers.slurm_parse import Node, Partition
from theseus.hardware.resources import Resources

CLUSTER = Cluster("lab", "/root", "/work")
GIB = 2**30


def host(chips=(), **settings):
    return Host("hpc", "slurm", CLUSTER, chips=dict(chips), slurm=SlurmSettings(**settings))


def node(name="n1", state="IDLE", gpus=None, used=0, partitions=("gpu",), **more):
    gpus = {"h100": 8} if gpus is None else gpus
    in_use = dict.fromkeys(gpus, used)
    sizes = {"cpus": 64, "cpus_free": 64, "memory": 512_000, "memory_free": 512_000, **more}
    return Node(name, state, gpus, in_use, partitions, **sizes)


def partition(name="gpu", **more):
    return Partition(name, **{"default": name == "gpu", "up": True, "state": "UP", **more})


def verdict(nodes, /, *chips, gpus=None, partitions=None, mapping=None, of=None, **wanted):
    need = need_of(Resources(chips=chips, gpus=gpus, **wanted))
    mapping = {"h100": "h100"} if mapping is None else mapping
    return choose(of or host(), need, nodes, partitions or [partition()], mapping)


def test_the_first_chip_that_fits_now_wins_over_a_better_one_that_must_wait():
    nodes = [node(used=8), node("n2", gpus={"a100-sxm4-80gb": 8})]
    chosen = verdict(nodes, "h100", "a100-sxm4-80gb", gpus=4)
    assert (chosen.fit, chosen.placement.gres) == ("now", "gpu:a100-sxm4-80gb:4")
    assert verdict(nodes, "h100", gpus=4).fit == "queue"


def test_the_order_of_the_request_decides_between_chips_that_fit():
    nodes = [node(gpus={"l4": 8}), node("n2")]
    assert verdict(nodes, "h100", "l4", gpus=1).placement.chip == "h100"
    assert verdict(nodes, "l4", "h100", gpus=1).placement.chip == "l4"


def test_the_order_of_the_inventory_decides_between_partitions():
    nodes = [node(partitions=("gpu", "long"))]
    both = [partition(), partition("long")]
    assert verdict(nodes, "h100", partitions=both).placement.partition == "gpu"
    of = host(partitions=("long", "gpu"))
    assert verdict(nodes, "h100", partitions=both, of=of).placement.partition == "long"


def test_a_partition_of_any_name_is_carried_as_it_is():
    name = "CPU nodes (amd)"
    chosen = verdict([node(partitions=(name,))], "h100", partitions=[partition(name)])
    assert chosen.placement.partition == name


def test_gpus_must_be_free_on_one_node():
    assert verdict([node(used=5), node("n2", used=5)], "h100", gpus=4).fit == "queue"


def test_processors_and_memory_must_be_free_beside_them():
    assert verdict([node(cpus_free=4)], "h100", cpus=8).fit == "queue"
    assert verdict([node(memory_free=1000)], "h100", memory=4 * GIB).fit == "queue"
    assert verdict([node(cpus=4, cpus_free=4)], "h100", cpus=8).fit == "no"
    assert verdict([node(cpus=4, cpus_free=4)], "h100", cpus=8).reason == (
        "needs 1 × h100 with 8 CPUs in each node, no node has both"
    )
    told = verdict([node(cpus_free=4)], "h100", cpus=8).reason
    assert told.startswith("8 h100 free, but not together with the processors")


def test_memory_that_the_inventory_asks_for_counts():
    assert verdict([node(memory_free=1000)], "h100", of=host(mem="2G")).fit == "queue"
    assert verdict([node(memory_free=1000)], "h100", of=host(mem="0")).fit == "queue"


def test_a_job_that_asks_for_no_memory_gets_all_of_it_where_memory_is_counted():
    assert verdict([node(memory_free=100_000)], "h100").fit == "queue"
    some = [partition(memory_per_cpu=4000)]
    assert verdict([node(memory_free=100_000)], "h100", partitions=some).fit == "now"


def test_several_nodes_are_needed_all_at_once():
    assert verdict([node(), node("n2")], "h100", gpus=16, nodes=2).fit == "now"
    assert verdict([node(), node("n2", used=1)], "h100", gpus=16, nodes=2).fit == "queue"
    few = verdict([node(), node("n2")], "h100", gpus=24, nodes=3)
    assert (few.fit, few.reason) == ("no", "needs 3 nodes with h100, has 2")
    one = [partition(most_nodes=1)]
    assert verdict([node()], "h100", gpus=16, nodes=2, partitions=one).reason == (
        "no partition allows 2 nodes"
    )


def test_a_sleeping_node_can_be_waited_for_and_a_drained_one_cannot():
    assert verdict([node(state="IDLE+CLOUD+POWERED_DOWN")], "h100").fit == "queue"
    dead = verdict([node(state="IDLE+DRAIN", reason="bad fan")], "h100")
    assert dead.reason == "nodes cannot be used: n1 idle+drain (bad fan)"


def test_a_node_that_is_planned_for_another_job_is_for_short_runs():
    told = verdict([node(state="MIXED+PLANNED")], "h100")
    assert told.reason == "8 of 8 h100 free in gpu, planned for another job: a short run only"


def test_a_partition_that_is_down_is_told():
    down = [partition(up=False, state="DRAIN")]
    assert verdict([node()], "h100", partitions=down).reason == "partition gpu is drain"


def test_nodes_that_are_excluded_or_lack_a_feature_are_passed_over():
    assert (
        verdict([node(), node("n2", used=8)], "h100", of=host(exclude=("n[1-1]",))).fit == "queue"
    )
    nodes = [node(features=("ib",)), node("n2", used=8, features=("ib", "nvme"))]
    assert verdict(nodes, "h100", of=host(constraint="ib&nvme")).fit == "queue"
    assert verdict(nodes, "h100", of=host(constraint="[ib|eth]")).fit == "now"  # SLURM judges


def test_a_run_on_processors_prefers_the_partition_for_those():
    nodes = [node(), node("c1", gpus={}, partitions=("cpu",))]
    both = [partition(), partition("cpu")]
    chosen = verdict(nodes, partitions=both, of=host(cpu_partitions=("cpu",), partitions=("gpu",)))
    assert (chosen.placement.partition, chosen.placement.gres) == ("cpu", None)
    assert verdict(nodes, partitions=both, cpus=65).reason == (
        "needs 65 CPUs, more than a node of gpu/cpu has"
    )


# What a GRES type means


def test_the_inventorys_own_mapping_comes_first_and_case_makes_no_difference():
    assert gpu_type("A100", host(), {"a100": "a100-sxm4-40gb"}).chips == ("a100-sxm4-40gb",)


def test_a_type_that_is_spelled_as_a_chip_is_that_chip():
    assert gpu_type("H100", host(), {}).chips == ("h100",)
    assert gpu_type("h100", host({"h100-nvl": 8}), {"h100": "h100-nvl"}).chips == ("h100-nvl",)


def test_a_type_that_may_be_several_chips_is_used_only_when_it_cannot_matter():
    nodes = [node(gpus={"a100": 8})]
    unclear = verdict(nodes, "a100-sxm4-80gb", mapping={})
    assert unclear.fit == "no"
    assert unclear.reason.startswith("GRES type 'a100' may be a100-sxm4-80gb or a100-sxm4-40gb")
    assert unclear.reason.endswith("name it in gres_mapping")
    owned = host({"a100-sxm4-80gb": 8})
    assert verdict(nodes, "a100-sxm4-80gb", mapping={}, of=owned).fit == "now"
    family = ("a100-sxm4-80gb", "a100-sxm4-40gb", "a100-pcie-80gb", "a100-pcie-40gb")
    assert verdict(nodes, *family, mapping={}).fit == "now"
    assert verdict(nodes, gpus=2, mapping={}).placement.gres == "gpu:a100:2"


def test_gpus_without_a_type_are_what_the_inventory_says():
    nodes = [node(gpus={"": 8})]
    assert verdict(nodes, "h100", mapping={}).reason == (
        "GRES type 'gpu' does not say which chip: name it in gres_mapping"
    )
    for known in ({"of": host({"h100": 8}), "mapping": {}}, {"mapping": {"gpu": "h100"}}):
        assert verdict(nodes, "h100", **known).placement.gres == "gpu:1"


def test_a_mig_slice_is_another_chip():
    nodes = [node(gpus={"nvidia_h100_nvl_1g.12gb": 7})]
    assert verdict(nodes, "h100-nvl", mapping={}).reason == (
        "needs h100-nvl, has nvidia_h100_nvl_1g.12gb"
    )
    mapping = {"nvidia_h100_nvl_1g.12gb": "l4"}
    assert verdict(nodes, "l4", mapping=mapping).placement.gres == "gpu:nvidia_h100_nvl_1g.12gb:1"


@pytest.mark.parametrize("spelled", ["nvidia_h100_80gb_hbm3", "NVIDIA-H100-80GB-HBM3"])
def test_the_names_that_slurm_detects_by_itself_are_known(spelled):
    assert verdict([node(gpus={spelled: 8})], "h100", mapping={}).placement.gres == (
        f"gpu:{spelled}:1"
    )
