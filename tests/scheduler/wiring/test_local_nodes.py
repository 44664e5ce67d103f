"""One machine's devices, shared out to pools."""

from dataclasses import replace

from builders import a_device, a_node, a_pool

from gpucommons.gpu.client.agent_client import NodeReport
from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.devices.topology import SimulatedTopology, simulated_links
from gpucommons.scheduler.core.model.resources import Node, Pool, UnhealthyDevice
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.wiring.local_nodes import local_nodes


def a_report(*devices: Device, cpu_milli: int = 2000) -> NodeReport:
    return NodeReport(
        node="box", devices=devices, cpu_milli=cpu_milli, memory_mib=8192, isolation="none"
    )


def a_local_pool(name: str, gpu_kind: str | None = None) -> Pool:
    return a_pool(name, executor="local", gpu_kind=gpu_kind)


def devices(count: int, kind: str = "A100-40") -> tuple[Device, ...]:
    return tuple(a_device(f"{kind}-{index}", index, kind=kind) for index in range(count))


def shared(report: NodeReport, *pools: Pool) -> dict[str, list[str]]:
    found = local_nodes(report, pools, Cluster())
    return {node.pool: [d.device_id for d in node.devices] for node in found}


def names(report: NodeReport, pools: list[Pool], *known: Node) -> list[str]:
    cluster = Cluster(nodes={node.node_id: node for node in known})
    return [node.node_id for node in local_nodes(report, pools, cluster)]


def test_nodes_with_gpus_have_the_driver_that_the_agent_tells_and_those_without_none() -> None:
    report = replace(a_report(*devices(1)), driver="580.95.05")
    found = local_nodes(report, [a_local_pool("gpu"), a_local_pool("cpu")], Cluster())
    assert {node.pool: node.driver for node in found} == {"gpu": "580.95.05", "cpu": ""}


def test_each_node_knows_the_links_among_its_own_gpus() -> None:
    four = devices(4)
    links = simulated_links(four, SimulatedTopology.PAIRS)
    report = replace(a_report(*four), links=links)
    pools = [a_local_pool("build"), a_local_pool("train"), a_local_pool("cpu")]
    assert {node.pool: node.links for node in local_nodes(report, pools, Cluster())} == {
        "build": (links[0],),
        "train": (links[-1],),
        "cpu": (),
    }


def test_an_unhealthy_gpu_stays_in_its_pool_and_takes_nothing() -> None:
    four = devices(4)
    report = replace(a_report(*four), unhealthy={four[2].device_id: "GPU is lost"})
    build, train = local_nodes(report, [a_local_pool("build"), a_local_pool("train")], Cluster())
    assert (build.devices, build.unhealthy) == (four[:2], ())
    assert train.devices == four[3:]
    assert train.unhealthy == (UnhealthyDevice(device=four[2], text="GPU is lost"),)
    assert train.all_devices == four[2:]
    assert (train.cpu_milli, train.memory_mib) == (build.cpu_milli, build.memory_mib)


def test_the_pool_called_cpu_has_no_devices() -> None:
    found = shared(a_report(*devices(2)), a_local_pool("gpu"), a_local_pool("cpu"))
    assert found == {"gpu": ["A100-40-0", "A100-40-1"], "cpu": []}


def test_a_named_kind_goes_first_and_the_rest_to_who_names_none() -> None:
    report = a_report(*devices(1, "T4"), *devices(2, "H100"))
    found = shared(report, a_local_pool("small"), a_local_pool("big", "H100"))
    assert found == {"small": ["T4-0"], "big": ["H100-0", "H100-1"]}


def test_several_pools_share_in_contiguous_parts() -> None:
    found = shared(a_report(*devices(4)), a_local_pool("build"), a_local_pool("train"))
    assert found == {"build": ["A100-40-0", "A100-40-1"], "train": ["A100-40-2", "A100-40-3"]}


def test_devices_that_no_pool_wants_stay_out() -> None:
    assert shared(a_report(*devices(1)), a_local_pool("big", "H100")) == {"big": []}


def test_pools_of_other_executors_have_no_node_here() -> None:
    report = a_report(*devices(1))
    pools = [a_local_pool("gpu"), a_pool("cloud", executor="fake")]
    (node,) = local_nodes(report, pools, Cluster())
    assert (node.pool, node.node_id) == ("gpu", "box-gpu")


def test_processors_suffice_for_a_notebook_on_each_gpu() -> None:
    pools = [a_local_pool("gpu"), a_local_pool("cpu")]
    gpu, cpu = local_nodes(a_report(*devices(4)), pools, Cluster())
    assert (gpu.node_id, gpu.cpu_milli, gpu.memory_mib) == ("box-gpu", 32_000, 32_768)
    assert (cpu.node_id, cpu.cpu_milli) == ("box-cpu", 4000)
    large = a_report(*devices(4), cpu_milli=64_000)
    assert local_nodes(large, [a_local_pool("gpu")], Cluster())[0].cpu_milli == 64_000


def test_a_pool_keeps_the_node_that_it_has_whatever_that_is_called() -> None:
    report, gpu, cpu = a_report(*devices(1)), a_local_pool("gpu"), a_local_pool("cpu")
    assert names(report, [gpu]) == names(report, [gpu, cpu])[:1] == ["box-gpu"]
    old = a_node("box", pool="gpu")
    assert names(report, [gpu, cpu], old) == ["box", "box-cpu"]


def test_of_two_nodes_of_a_pool_the_lost_one_stays_lost() -> None:
    lost = a_node("box", pool="gpu", missing_since_ms=1)
    here = a_node("box-gpu", pool="gpu")
    assert names(a_report(*devices(1)), [a_local_pool("gpu")], lost, here) == ["box-gpu"]
