"""What every sharing provider promises, whatever it does underneath."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_groups import PlainCgroups

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.devices.memory_limits import FakeMemoryLimits
from gpucommons.gpu.errors import LimitNotInForce, SliceTooSmall
from gpucommons.gpu.linux.pod_cgroups import PodCgroups
from gpucommons.gpu.providers import (
    Held,
    MigProfile,
    NodeTraits,
    SharingProvider,
    injection,
    isolation_sentence,
    no_gpu,
    provider_stack,
    quantize,
)
from gpucommons.gpu.providers.node.cgroup_mem import CgroupMemProvider
from gpucommons.gpu.providers.node.exclusive import ExclusiveProvider
from gpucommons.gpu.providers.node.hints import HintsProvider
from gpucommons.gpu.providers.node.mig import MigProvider, smallest_profile
from gpucommons.gpu.providers.node.mps import MpsProvider
from gpucommons.gpu.providers.node.pod_mem import PodMemProvider
from gpucommons.gpu.providers.node.shim import ShimProvider
from gpucommons.gpu.providers.node.watchdog import WatchdogProvider
from gpucommons.gpu.shim import Drivers
from gpucommons.gpu.slices.memory_of_share import MIN_SLICE_MIB, share_memory_mib
from gpucommons.gpu.slices.slice_folders import SliceFolders
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, MpsDaemon, SliceId
from gpucommons.gpu.slices.usage import ISOLATION_MODES

CARDS = tuple(
    Device(device_id=DeviceId(f"GPU-{index}"), index=index, kind="A100-40", memory_mib=40960)
    for index in range(4)
)
SMALL = Device(device_id=DeviceId("GPU-s"), index=0, kind="T4-15", memory_mib=15360)
INSTANCE = Device(device_id=DeviceId("MIG-1"), index=0, kind="A100-2g.10gb", memory_mib=9856)
A100_PROFILES = tuple(
    MigProfile(name=name, slices=slices, of_slices=7, memory_mib=memory, count=count)
    for name, slices, memory, count in (
        ("1g.5gb", 1, 4864, 7),
        ("1g.10gb", 1, 9856, 4),
        ("2g.10gb", 2, 9856, 3),
        ("3g.20gb", 3, 19968, 2),
        ("4g.20gb", 4, 19968, 1),
        ("7g.40gb", 7, 40192, 1),
    )
)
#: A node with everything; each provider picks what it needs.
RICH = NodeTraits(
    driver="615.71.09",
    cgroup_parent="/sys/fs/cgroup/gpucommons.slice",
    memory_limits=True,
    shim=True,
    watched=True,
    mig_profiles={card.device_id: A100_PROFILES for card in CARDS},
)
TRAITS = (
    NodeTraits(),
    NodeTraits(simulated=True),
    NodeTraits(devices_confined=True),
    NodeTraits(simulated=True, devices_confined=True),
    NodeTraits(torch=(2, 12)),
    NodeTraits(driver="580.95.05", watched=True),
)


def held(*shares: tuple[int, int], name: str = "s-1") -> Held:
    gpu_slice = GpuSlice(
        slice_id=SliceId(name),
        shares=tuple(
            DeviceShare(device_id=CARDS[card].device_id, milli_gpu=milli) for card, milli in shares
        ),
        memory_mib=sum(share_memory_mib(CARDS[card], milli) for card, milli in shares),
    )
    return Held(slice=gpu_slice, devices=tuple(CARDS[card] for card, _ in shares))


def with_mps(one: Held, daemon: MpsDaemon) -> Held:
    return replace(one, slice=replace(one.slice, mps=daemon))


def mps_pipe(folder: Path) -> MpsDaemon:
    folder.mkdir(exist_ok=True)
    if not (folder / "control").exists():
        os.mkfifo(folder / "control")
    return MpsDaemon(pipe=str(folder))


MAKERS: dict[str, Callable[[Path], SharingProvider]] = {
    "exclusive": lambda _: ExclusiveProvider(),
    "hints": lambda _: HintsProvider(),
    "watchdog": lambda _: WatchdogProvider(),
    "mig": lambda _: MigProvider(),
    "shim": lambda folder: ShimProvider(SliceFolders(folder / "slices"), own_uid=os.geteuid()),
    "mps": lambda _: MpsProvider(),
    "cgroup_mem": lambda folder: CgroupMemProvider(
        FakeMemoryLimits(), PlainCgroups(folder / "cgroup")
    ),
    "cgroup_mem of pods": lambda folder: PodMemProvider(FakeMemoryLimits(), PodCgroups(folder)),
}


@pytest.fixture(params=MAKERS)
def provider(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SharingProvider:
    if request.param == "shim":
        libraries = tmp_path / "built"
        libraries.mkdir()
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            (libraries / name).write_bytes(b"a library")
        monkeypatch.setattr("gpucommons.gpu.shim.building.LIBRARIES", libraries)
        monkeypatch.setattr("gpucommons.gpu.shim.folder.probe", lambda *_: None)
        drivers = Drivers(cuda=libraries / "libcuda.so.1", nvml=libraries / "libnvidia-ml.so.1")
        monkeypatch.setattr("gpucommons.gpu.shim.folder.find_drivers", lambda: drivers)
    found = MAKERS[request.param](tmp_path)
    assert found.name == request.param.split()[0]
    return found


@pytest.mark.parametrize("traits", [*TRAITS, RICH], ids=str)
class TestEveryProvider:
    def test_says_whether_it_works_and_why(
        self, provider: SharingProvider, traits: NodeTraits
    ) -> None:
        assert provider.probe(traits).reason

    def test_grants_at_least_what_was_asked_and_names_its_isolation(
        self, provider: SharingProvider, traits: NodeTraits
    ) -> None:
        for device in (CARDS[0], INSTANCE):
            for milli in (125, 250, 333, 500, 999, 1000):
                try:
                    grant = provider.quantize(device, milli, traits)
                except SliceTooSmall:
                    assert share_memory_mib(device, milli) < MIN_SLICE_MIB
                    continue
                if grant is None:
                    continue
                assert grant == provider.quantize(device, milli, traits)
                assert grant.provider == provider.name
                assert milli <= grant.milli_gpu <= 1000
                assert grant.memory_mib >= MIN_SLICE_MIB
                assert grant.memory_mib <= device.memory_mib - device.reserve_mib
                assert grant.isolation in ISOLATION_MODES

    @pytest.mark.parametrize("milli", [-1, 0, 1001, 10**9])
    def test_makes_no_impossible_share(
        self, provider: SharingProvider, traits: NodeTraits, milli: int
    ) -> None:
        assert provider.quantize(CARDS[0], milli, traits) is None

    def test_prepares_the_same_slice_the_same_way(
        self, provider: SharingProvider, traits: NodeTraits
    ) -> None:
        first = provider.prepare(held((0, 500)), traits)
        assert first == provider.prepare(held((0, 500)), traits)
        assert all(isinstance(value, str) for value in first.env.values())
        provider.verify(held((0, 500)))

    def test_releases_as_often_as_it_is_told_and_what_it_never_made(
        self, provider: SharingProvider, traits: NodeTraits
    ) -> None:
        provider.prepare(held((0, 500)), traits)
        for name in ("s-1", "s-1", "never-there"):
            provider.release(held((0, 500), name=name))
        # A new slice may have the name of an old one.
        provider.prepare(held((0, 250)), traits)
        provider.verify(held((0, 250)))

    def test_resizes_what_is_in_use(self, provider: SharingProvider, traits: NodeTraits) -> None:
        provider.prepare(held((0, 500)), traits)
        provider.resize(held((0, 500)), held((0, 250)).slice.memory_mib)
        provider.verify(held((0, 250)))

    def test_leaves_whole_devices_unlimited(
        self, provider: SharingProvider, traits: NodeTraits
    ) -> None:
        given_to = provider.prepare(held((0, 1000), (1, 1000)), traits)
        provider.verify(held((0, 1000), (1, 1000)))
        assert given_to.cgroup is None
        assert given_to.prepend == {}


@given(milli=st.integers(1, 1000), traits=st.sampled_from(TRAITS))
def test_a_stack_grants_exactly_or_says_that_it_is_too_small(
    milli: int, traits: NodeTraits
) -> None:
    memory_mib = share_memory_mib(CARDS[0], milli)
    stack = provider_stack(traits)
    if memory_mib < MIN_SLICE_MIB:
        with pytest.raises(SliceTooSmall, match="ask for"):
            stack.quantize(CARDS[0], milli)
    else:
        grant = stack.quantize(CARDS[0], milli)
        assert (grant.milli_gpu, grant.memory_mib) == (milli, memory_mib)


def test_isolation_is_claimed_only_where_it_is() -> None:
    confined = provider_stack(NodeTraits(devices_confined=True))
    assert confined.quantize(CARDS[0], 1000).isolation == "hardware"
    assert confined.quantize(CARDS[0], 500).isolation == "none"
    assert quantize(CARDS[0], 1000).isolation == "none"
    pretend = provider_stack(NodeTraits(devices_confined=True, simulated=True))
    assert pretend.quantize(CARDS[0], 1000).isolation == "none"


def test_a_share_without_room_for_a_context_says_what_is_possible() -> None:
    with pytest.raises(SliceTooSmall, match=r"⅛ of T4-15 has 1\.8 GiB.*ask for ¼ or more"):
        quantize(SMALL, 125)


def test_a_fraction_sees_its_card_and_is_told_its_memory() -> None:
    assert injection(held((1, 500)).slice, CARDS).env == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-1",
        "NVIDIA_VISIBLE_DEVICES": "GPU-1",
        "GPUCOMMONS_SLICE_ID": "s-1",
        "GPUCOMMONS_SLICE_MEMORY_MIB": "19866",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.475",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }


def test_whole_cards_come_in_the_order_of_the_bus_and_without_hints() -> None:
    env = injection(held((3, 1000), (1, 1000)).slice, CARDS).env
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-3"
    assert "XLA_PYTHON_CLIENT_PREALLOCATE" not in env


def test_torch_is_told_only_where_it_understands() -> None:
    def allocator(torch: tuple[int, int] | None) -> str | None:
        stack = provider_stack(NodeTraits(torch=torch))
        return stack.prepare(held((0, 250))).env.get("PYTORCH_ALLOC_CONF")

    assert allocator((2, 12)) == "per_process_memory_fraction:0.237"
    assert allocator((2, 8)) is None
    assert allocator(None) is None


def test_a_simulated_device_is_no_device_for_the_container_toolkit() -> None:
    device = Device(
        device_id=DeviceId("sim-0"), index=0, kind="A100-40", memory_mib=40960, simulated=True
    )
    gpu_slice = GpuSlice(
        slice_id=SliceId("s"),
        shares=(DeviceShare(device_id=DeviceId("sim-0"), milli_gpu=500),),
        memory_mib=19866,
    )
    env = injection(gpu_slice, (device,)).env
    assert (env["CUDA_VISIBLE_DEVICES"], env["NVIDIA_VISIBLE_DEVICES"]) == ("sim-0", "void")


def test_without_a_slice_no_device_is_seen() -> None:
    nothing = GpuSlice(slice_id=SliceId("s"), shares=(), memory_mib=0)
    for given_env in (no_gpu().env, injection(nothing, CARDS).env):
        assert given_env == {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}


def test_every_isolation_mode_has_its_own_sentence_and_an_unknown_one_promises_nothing() -> None:
    sentences = [isolation_sentence(mode) for mode in ISOLATION_MODES]
    assert len(set(sentences)) == len(ISOLATION_MODES)
    assert all(sentence.endswith(".") for sentence in sentences)
    assert isolation_sentence("magic") == isolation_sentence("none")
    assert isolation_sentence("none").startswith("Memory is not limited on this node")


def test_the_strongest_isolation_of_a_node_is_named_for_each_size(tmp_path: Path) -> None:
    def isolation(traits: NodeTraits, milli: int) -> str:
        providers = [MAKERS[name](tmp_path) for name in ORDER]
        stack = provider_stack(traits, providers)
        return stack.quantize(CARDS[0], milli, traits.mps).isolation

    plain = NodeTraits(driver="580.95.05", watched=True)
    assert (isolation(plain, 500), isolation(plain, 1000)) == ("watched", "watched")
    limited = NodeTraits(driver="615.71.09", cgroup_parent="/x", memory_limits=True, watched=True)
    assert isolation(limited, 250) == "kernel"
    shimmed = NodeTraits(driver="580.95.05", shim=True, watched=True)
    assert (isolation(shimmed, 250), isolation(shimmed, 1000)) == ("cooperative", "watched")
    asked_for_mps = NodeTraits(driver="580.95.05", mps=MpsDaemon(pipe="/x"))
    assert isolation(asked_for_mps, 250) == "driver"
    assert isolation(NodeTraits(simulated=True, watched=True), 250) == "none"


ORDER = ("mig", "exclusive", "cgroup_mem", "shim", "mps", "watchdog", "hints")


def test_only_slices_of_a_pool_that_opted_in_go_through_mps(tmp_path: Path) -> None:
    watched = NodeTraits(driver="580.95.05", watched=True)
    stack = provider_stack(watched, [MAKERS[name](tmp_path) for name in ("mps", "watchdog")])
    plain, asked = held((0, 250)), with_mps(held((0, 250)), mps_pipe(tmp_path / "mps"))
    assert stack.prepare(plain).env == {}
    assert stack.prepare(asked).env == {
        "CUDA_MPS_PIPE_DIRECTORY": str(tmp_path / "mps"),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={plain.slice.memory_mib}M",
    }
    assert (stack.isolation_of(plain), stack.isolation_of(asked)) == ("watched", "driver")
    # A whole card needs no daemon.
    assert stack.prepare(with_mps(held((0, 1000)), MpsDaemon(pipe="/nowhere"))).env == {}


def test_a_slice_whose_daemon_is_not_there_does_not_start(tmp_path: Path) -> None:
    stack = provider_stack(NodeTraits(driver="580.95.05"), [MpsProvider()])
    with pytest.raises(LimitNotInForce, match="nvidia-cuda-mps-control -d"):
        stack.prepare(with_mps(held((0, 250)), MpsDaemon(pipe=str(tmp_path))))
    mps_pipe(tmp_path)
    named = MpsDaemon(pipe=str(tmp_path), version=3, server="shared")
    with pytest.raises(LimitNotInForce, match="milli-250"):
        stack.prepare(with_mps(held((0, 250)), named))
    (tmp_path / "shared" / "milli-250").mkdir(parents=True)
    env = stack.prepare(with_mps(held((0, 250)), named)).env
    assert env == {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path / "shared" / "milli-250")}


def test_one_memory_layer_is_enough_the_strongest(tmp_path: Path) -> None:
    providers = [MAKERS[name](tmp_path) for name in ORDER]
    names = [provider.name for provider in provider_stack(RICH, providers).providers]
    assert "cgroup_mem" in names
    assert "shim" not in names


def test_a_card_that_could_be_cut_but_is_not_promises_nothing() -> None:
    stack = provider_stack(RICH, (MigProvider(), HintsProvider()))
    assert stack.quantize(CARDS[0], 250).isolation == "none"
    assert stack.quantize(INSTANCE, 1000).isolation == "cooperative"
    confined = provider_stack(replace(RICH, devices_confined=True), (MigProvider(),))
    assert confined.quantize(INSTANCE, 1000).isolation == "hardware"


def test_a_share_names_the_profile_that_is_at_least_as_large() -> None:
    def profile(milli: int) -> str | None:
        found = smallest_profile(A100_PROFILES, CARDS[0], milli)
        return None if found is None else found.name

    # A quarter of the compute is more than one slice of seven.
    assert [profile(milli) for milli in (125, 250, 500, 1000)] == [
        "1g.5gb", "2g.10gb", "4g.20gb", None,
    ]  # fmt: skip
    assert smallest_profile((), CARDS[0], 250) is None


def test_limits_of_one_card_are_not_promised_for_shares_of_several(tmp_path: Path) -> None:
    providers = [MAKERS[name](tmp_path) for name in ORDER]
    shim = NodeTraits(driver="580.95.05", shim=True, watched=True)
    stack = provider_stack(shim, providers)
    assert stack.isolation_of(held((0, 500))) == "cooperative"
    assert stack.isolation_of(held((0, 500), (1, 500))) == "watched"
    alone = provider_stack(NodeTraits(driver="580.95.05", shim=True), providers)
    assert alone.isolation_of(held((0, 500), (1, 500))) == "none"
    limited = NodeTraits(driver="615.71.09", cgroup_parent="/x", memory_limits=True, watched=True)
    assert provider_stack(limited, providers).isolation_of(held((0, 500), (1, 500))) == "kernel"
