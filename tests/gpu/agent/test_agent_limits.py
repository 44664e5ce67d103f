"""The agent as a process: limits in the driver, and what becomes of who goes around them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.errors import BadAgentRequest, CannotShrink, LimitNotInForce
from gpucommons.gpu.linux.control_groups import enter, find_mount
from gpucommons.gpu.slices.cgroups import FOLDER
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

SLEEP = "import time; time.sleep(600)"


@pytest.fixture
def driver(nvml_state: ModuleType, tmp_path: Path) -> Any:
    return nvml_state.FakeNvml(tmp_path / "nvml-state", cards=2)


@pytest.fixture
def start(driver: Any, build_fake_nvml: Callable[..., Path], start_agent: Any) -> Any:
    def start_over_it(*arguments: str) -> tuple[subprocess.Popen[bytes], AgentClient]:
        env = {"LD_LIBRARY_PATH": str(build_fake_nvml()), "FAKE_NVML_STATE": str(driver.path)}
        started: tuple[subprocess.Popen[bytes], AgentClient] = start_agent(*arguments, env=env)
        return started

    return start_over_it


@pytest.fixture
def cgroup_mount() -> Path:
    mount = find_mount()
    if mount is None or os.geteuid() != 0 or not os.access(mount, os.W_OK):
        pytest.skip("making control groups needs root and a writable cgroup v2")
    return mount


@pytest.fixture
def group_name() -> Iterator[SliceId]:
    name = SliceId(f"test-{uuid.uuid4().hex[:12]}")
    yield name
    mount = find_mount()
    if mount is not None and (mount / FOLDER / name).is_dir():
        (mount / FOLDER / name).rmdir()


@pytest.fixture
def sleeper() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(group: str | None = None) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", SLEEP],
            preexec_fn=None if group is None else lambda: enter(group),  # noqa: PLW1509 - one thread
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()


def half(driver: Any, name: SliceId, *, milli: int = 500) -> GpuSlice:
    share = DeviceShare(device_id=DeviceId(driver.uuid(0)), milli_gpu=milli)
    return GpuSlice(slice_id=name, shares=(share,), memory_mib=19866 * milli // 500)


def test_a_slice_is_limited_by_the_driver_before_anything_starts_on_it(
    start: Any, driver: Any, cgroup_mount: Path, group_name: SliceId, sleeper: Any
) -> None:
    _, agent = start()
    assert agent.devices().isolation == "kernel"
    prepared = agent.prepare(half(driver, group_name))
    group = str(cgroup_mount / FOLDER / group_name)
    assert (prepared.isolation, prepared.injection.cgroup) == ("kernel", group)
    assert driver.limits()[group, 0] == (19866, 19866)
    process = sleeper(group)
    assert agent.bind(group_name, process.pid)
    driver.process(process.pid, memory_mib=3000)
    sample = agent.reading(group_name).sample
    assert sample is not None
    assert (sample.isolation, sample.notice, sample.memory_used_mib) == ("kernel", "", 3000)
    process.kill()
    process.wait()
    agent.close_slice(group_name)
    assert not Path(group).exists()
    # The reservation is taken back first, or the parent of the group would keep it.
    assert driver.limits()[group, 0] == (0, 19866)


def test_an_agent_that_was_killed_leaves_no_limit_behind(
    start: Any, driver: Any, cgroup_mount: Path, group_name: SliceId, short_folder: Path
) -> None:
    process, agent = start()
    agent.prepare(half(driver, group_name))
    process.kill()
    process.wait()
    # As an agent leaves it that is killed in the middle of closing the slice.
    state = short_folder / "open-slices.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"slices": []}))
    start()
    assert not (cgroup_mount / FOLDER / group_name).exists()


def test_an_agent_that_lost_its_open_slices_keeps_every_limit_and_what_has_one(
    start: Any, driver: Any, cgroup_mount: Path, group_name: SliceId, short_folder: Path
) -> None:
    process, agent = start()
    agent.prepare(half(driver, group_name))
    process.kill()
    process.wait()
    (short_folder / "open-slices.json").unlink()
    _, again = start()
    group = str(cgroup_mount / FOLDER / group_name)
    assert driver.limits()[group, 0] == (19866, 19866)
    assert [one.slice_id for one in again.slices()] == [group_name]
    again.close_slice(group_name)
    assert not Path(group).exists()


def test_a_limit_that_the_driver_refuses_starts_nothing_and_says_why(
    start: Any, driver: Any, cgroup_mount: Path, group_name: SliceId, nvml_state: ModuleType
) -> None:
    _, agent = start()
    driver.refuse_limits(nvml_state.NO_PERMISSION)
    with pytest.raises(LimitNotInForce, match="refuses the memory limit"):
        agent.prepare(half(driver, group_name))
    assert agent.slices() == ()
    driver.refuse_limits(0)
    assert agent.prepare(half(driver, group_name)).isolation == "kernel"
    agent.close_slice(group_name)


def test_a_live_slice_grows_and_shrinks_no_further_than_its_use(
    start: Any, driver: Any, cgroup_mount: Path, group_name: SliceId
) -> None:
    _, agent = start()
    agent.prepare(half(driver, group_name))
    group = str(cgroup_mount / FOLDER / group_name)
    agent.resize(group_name, 25_000)
    assert driver.limits()[group, 0] == (25_000, 25_000)
    driver.edit_limit(group, used_bytes=12_000 << 20)
    with pytest.raises(CannotShrink, match="12000 MiB"):
        agent.resize(group_name, 9000)
    with pytest.raises(BadAgentRequest, match="from 2048"):
        agent.resize(group_name, 60_000)
    agent.close_slice(group_name)


def test_an_older_driver_falls_back_and_the_mode_says_so(start: Any, driver: Any) -> None:
    driver.driver("580.95.05")
    _, agent = start()
    prepared = agent.prepare(half(driver, SliceId("a")))
    assert prepared.isolation in ("cooperative", "watched")
    assert prepared.injection.cgroup is None
    assert agent.devices().isolation == prepared.isolation


def test_who_uses_anothers_card_is_told(
    start: Any, driver: Any, sleeper: Any, eventually: Any
) -> None:
    driver.driver("580.95.05")
    _, agent = start()
    agent.open(half(driver, SliceId("a")))
    process = sleeper()
    agent.bind(SliceId("a"), process.pid)
    driver.process(process.pid, device=1, memory_mib=900)

    def notice() -> str:
        sample = agent.reading(SliceId("a")).sample
        return sample.notice if sample is not None else ""

    eventually(lambda: "uses 0.9 of 0.0 GiB" in notice() or "not yours" in notice())


def test_who_takes_the_neighbours_memory_is_stopped_at_once_and_it_is_on_record(
    start: Any, driver: Any, sleeper: Any, short_folder: Path, eventually: Any
) -> None:
    driver.driver("580.95.05")
    running, agent = start()
    agent.open(half(driver, SliceId("greedy")))
    agent.open(half(driver, SliceId("quiet")))
    greedy, quiet = sleeper(), sleeper()
    agent.bind(SliceId("greedy"), greedy.pid)
    agent.bind(SliceId("quiet"), quiet.pid)
    driver.process(quiet.pid, memory_mib=500)
    driver.process(greedy.pid, memory_mib=30_000)
    assert greedy.wait(timeout=60) == -15
    assert quiet.poll() is None
    audit = short_folder / "audit.jsonl"
    # The signal comes first, then its record.
    eventually(lambda: audit.exists() and audit.read_text().endswith("\n"))
    event = json.loads(audit.read_text().splitlines()[0])
    assert (event["event"], event["pid"], event["used_mib"], event["urgent"], event["sent"]) == (
        "memory-terminate", greedy.pid, 30_000, True, True,
    )  # fmt: skip
    # The victim's user reads why; the neighbour nothing at all.
    samples = {sample.slice_id: sample for sample in agent.usage()}
    told = samples[SliceId("greedy")].notice
    assert re.match(r"Stopped process \d+ at \d\d:\d\d:\d\d UTC: ", told)
    assert "your neighbours needed theirs" in told
    assert samples[SliceId("quiet")].notice == ""
    # A scheduler may ask for it, also after the agent was started anew.
    (entry,) = [one for one in agent.audit() if one.event == "memory-terminate"]
    assert (entry.slice_id, entry.fields["pid"]) == ("greedy", greedy.pid)
    assert entry.text.startswith("29.3 of 19.4 GiB")
    assert agent.audit(agent.audit()[-1].number) == ()
    running.terminate()
    running.wait(timeout=60)
    _, later = start()
    assert entry in later.audit()
    # A number of a record that is lost stands in nobody's way.
    assert entry in later.audit(10**9)


def test_use_above_the_new_limit_is_said_whatever_keeps_the_limit(
    start: Any, driver: Any, sleeper: Any, eventually: Any
) -> None:
    driver.driver("580.95.05")
    _, agent = start("--only-watch")
    agent.open(half(driver, SliceId("a")))
    process = sleeper()
    agent.bind(SliceId("a"), process.pid)
    driver.process(process.pid, memory_mib=9000)
    eventually(lambda: agent.reading(SliceId("a")).sample.memory_used_mib == 9000)
    with pytest.raises(CannotShrink, match=r"uses 9000 MiB.*as small as 8000 MiB: free memory"):
        agent.resize(SliceId("a"), 8000)
    agent.resize(SliceId("a"), 10_000)
    (gpu_slice,) = agent.slices()
    assert gpu_slice.memory_mib == 10_000


def test_an_agent_told_only_to_watch_stops_nobody(
    start: Any, driver: Any, sleeper: Any, eventually: Any
) -> None:
    driver.driver("580.95.05")
    _, agent = start("--only-watch")
    agent.open(half(driver, SliceId("a")))
    agent.open(half(driver, SliceId("b")))
    process = sleeper()
    agent.bind(SliceId("a"), process.pid)
    driver.process(process.pid, memory_mib=39_000)

    def sample() -> Any:
        return agent.reading(SliceId("a")).sample

    eventually(lambda: sample().memory_used_mib == 39_000)
    assert (sample().isolation, sample().notice) == ("none", "")
    assert process.poll() is None


def test_processes_of_another_namespace_make_the_card_unknown_and_not_idle(
    start: Any, driver: Any, sleeper: Any, eventually: Any
) -> None:
    _, agent = start()
    agent.open(half(driver, SliceId("a")))
    process = sleeper()
    agent.bind(SliceId("a"), process.pid)
    driver.process(process.pid, memory_mib=500, sm=0)
    driver.process(2**22 + 1, memory_mib=8000)

    def sample() -> Any:
        return agent.reading(SliceId("a")).sample

    eventually(lambda: sample().memory_used_mib is None)
    assert sample().active_ms == sample().at_ms
    report = agent.devices()
    assert "PID namespace of the host" in report.troubles[driver.uuid(0)]
    # The device computes as ever: it is the agent that sees too little.
    assert report.unhealthy == {}


@pytest.mark.parametrize(
    ("arguments", "mode"), [((), "cooperative"), (("--devices-confined",), "hardware")]
)
def test_instances_are_devices_of_their_own_and_apart_where_device_files_are_closed(
    start: Any, driver: Any, arguments: tuple[str, ...], mode: str
) -> None:
    driver.can_be_cut(("1g.5gb", 1, 7, 4864), ("2g.10gb", 2, 3, 9856), ("7g.40gb", 7, 1, 40192))
    driver.cut(("2g.10gb", 9856), ("2g.10gb", 9856), card=1)
    _, agent = start(*arguments)
    report = agent.devices()
    assert [(d.device_id, d.kind, d.memory_mib) for d in report.devices] == [
        (driver.uuid(0), "A100-40", 40960),
        (driver.instance_uuid(0), "A100-2g.10gb", 9856),
        (driver.instance_uuid(1), "A100-2g.10gb", 9856),
    ]
    assert report.isolations[DeviceId(driver.instance_uuid(0))] == mode
    share = DeviceShare(device_id=DeviceId(driver.instance_uuid(1)), milli_gpu=1000)
    prepared = agent.prepare(GpuSlice(slice_id=SliceId("m"), shares=(share,), memory_mib=9500))
    assert prepared.isolation == mode
    assert prepared.injection.env["CUDA_VISIBLE_DEVICES"] == driver.instance_uuid(1)


def test_a_driver_slower_than_a_second_starves_nobody_who_asks(start: Any, driver: Any) -> None:
    process, agent = start()
    agent.prepare(half(driver, SliceId("a"), milli=1000))
    driver.slow_down(150)
    for _ in range(3):
        assert agent.reading(SliceId("a")).pids == ()
    process.terminate()
    assert process.wait(timeout=60) == 0
