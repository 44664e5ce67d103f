from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpucommons.gpu.agent.state.open_slices import RING_SAMPLES
from gpucommons.gpu.agent.state.state_file import StateFile
from gpucommons.gpu.agent.watch import Watch
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.errors import GpuError, SliceInUse, UnknownDevice, UnknownSlice
from gpucommons.gpu.linux.fake_processes import FakeProcess, FakeProcesses
from gpucommons.gpu.node.fake import SimulatedGpus, simulated_devices
from gpucommons.gpu.node.telemetry import NOTHING_KNOWN, DeviceReading, ProcessReading
from gpucommons.gpu.slices.slice_processes import SliceProcesses
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

A = SliceId("a")


def half(name: str = "a", device: str = "sim-0", milli: int = 500) -> GpuSlice:
    return GpuSlice(
        slice_id=SliceId(name),
        shares=(DeviceShare(device_id=DeviceId(device), milli_gpu=milli),),
        memory_mib=19866,
    )


class Node:
    """A watch over scripted processes, and the clock of both."""

    def __init__(self, folder: Path) -> None:
        self.node = FakeProcesses()
        self.folder = folder
        self.seconds = 0
        self.watch = self.restarted()

    def restarted(self) -> Watch:
        gpus = SimulatedGpus(
            simulated_devices(2), self.node, monotonic_ns=lambda: self.seconds * 10**9
        )
        self.watch = Watch(
            gpus,
            SliceProcesses(self.node, own_uid=1500),
            StateFile(self.folder / "open-slices.json"),
        )
        self.watch.restore(now_ms=self.now_ms)
        return self.watch

    @property
    def now_ms(self) -> int:
        return 1_800_000_000_000 + self.seconds * 1000

    def second(self) -> None:
        self.seconds += 1
        self.watch.look(now_ms=self.now_ms)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_the_ring_holds_ten_minutes(node: Node) -> None:
    node.watch.open(half())
    for _ in range(RING_SAMPLES + 50):
        node.second()
    history = json.loads(node.watch.history(A))["history"]
    assert len(history) == RING_SAMPLES
    assert history[-1]["at_ms"] == node.now_ms
    assert history[0]["at_ms"] == node.now_ms - (RING_SAMPLES - 1) * 1000


def test_opening_again_is_harmless_and_other_shares_are_refused(node: Node) -> None:
    node.watch.open(half())
    node.second()
    node.watch.open(half())
    assert len(json.loads(node.watch.history(A))["history"]) == 1
    with pytest.raises(SliceInUse, match="close it first"):
        node.watch.open(half(milli=250))


def test_an_unknown_device_is_refused_and_nothing_is_open(node: Node) -> None:
    with pytest.raises(UnknownDevice, match="it has: sim-0, sim-1"):
        node.watch.open(half(device="sim-9"))
    assert node.watch.slices == ()


def test_what_cannot_be_saved_is_not_open(node: Node) -> None:
    (node.folder / "open-slices.partial").mkdir()
    with pytest.raises(OSError):  # noqa: PT011 - the system's words
        node.watch.open(half())
    assert node.watch.slices == ()
    (node.folder / "open-slices.partial").rmdir()
    node.watch.open(half())
    assert node.restarted().slices == (half(),)


def test_an_unknown_slice_is_said(node: Node) -> None:
    for ask in (
        lambda: node.watch.bind(A, 1),
        lambda: node.watch.reading(A, now_ms=0),
        lambda: node.watch.history(A),
    ):
        with pytest.raises(UnknownSlice, match="open it first"):
            ask()
    node.watch.close(A)


def test_a_reading_sees_a_process_that_ended_this_instant(node: Node) -> None:
    node.node.start(FakeProcess(pid=7))
    node.watch.open(half())
    node.watch.bind(A, 7)
    node.second()
    assert node.watch.reading(A, now_ms=node.now_ms)[1] == (7,)
    node.node.end(7)
    sample, pids = node.watch.reading(A, now_ms=node.now_ms)
    assert pids == ()
    assert sample is not None


def test_a_reading_before_the_first_look_looks(node: Node) -> None:
    node.watch.open(half())
    sample, _ = node.watch.reading(A, now_ms=node.now_ms)
    assert sample is not None
    assert sample.at_ms == node.now_ms


def test_samples_say_since_when_the_slice_is_idle(node: Node) -> None:
    node.node.start(FakeProcess(pid=7))
    node.second()
    node.watch.open(half())
    node.watch.bind(A, 7)
    for _ in range(15):
        node.second()
    (idle,) = node.watch.usage()
    assert idle.active_ms is None
    node.node.work(7, demand_ms=900)
    node.second()
    busy_ms = node.now_ms
    for _ in range(30):
        node.second()
    (idle,) = node.watch.usage()
    assert idle.active_ms is not None
    assert busy_ms <= idle.active_ms < busy_ms + 10_000


def test_two_slices_on_one_card_share_it_and_one_alone_does_not(node: Node) -> None:
    node.watch.open(half("a"))
    node.watch.open(half("b"))
    node.watch.open(half("c", device="sim-1"))
    node.second()
    assert [s.contention for s in node.watch.usage()] == ["low", "low", "alone"]


def test_minutes_are_rolled_up_also_for_a_closed_slice(node: Node) -> None:
    node.watch.open(half())
    for _ in range(30):
        node.second()
    node.watch.close(A)
    assert node.watch.usage() == ()
    (minute,) = node.watch.minutes(-1, now_ms=node.now_ms + 60_000)
    assert (minute.slice_id, minute.samples, minute.compute_percent_max) == ("a", 30, 0)


def test_a_restart_knows_the_slices_and_their_processes(node: Node) -> None:
    node.node.start(FakeProcess(pid=7))
    node.node.start(FakeProcess(pid=8, parent=7))
    node.watch.open(half())
    node.watch.bind(A, 7)
    node.watch.open(half("b", device="sim-1"))
    node.second()
    again = node.restarted()
    assert again.slices == (half(), half("b", device="sim-1"))
    assert again.reading(A, now_ms=node.now_ms)[1] == (7, 8)


def test_a_restart_is_no_use_of_a_slice(node: Node) -> None:
    node.node.start(FakeProcess(pid=7, private_mib=500))
    node.second()
    node.watch.open(half())
    node.watch.bind(A, 7)
    for _ in range(90):
        node.second()
    (before,) = node.watch.usage()
    assert before.active_ms is not None
    node.seconds += 40
    node.restarted()
    for _ in range(30):
        node.second()
    (after,) = node.watch.usage()
    assert after.active_ms == before.active_ms
    # What it does from then on is seen as before.
    node.node.work(7, demand_ms=900)
    node.second()
    (busy,) = node.watch.usage()
    assert busy.active_ms == node.now_ms


def test_an_hour_without_the_agent_makes_no_slice_an_hour_idle(node: Node) -> None:
    node.node.start(FakeProcess(pid=7, private_mib=500))
    node.second()
    node.watch.open(half())
    node.watch.bind(A, 7)
    for _ in range(600):
        node.second()
    (before,) = node.watch.usage()
    assert before.active_ms is not None
    idle_ms = node.now_ms - before.active_ms
    node.seconds += 3600
    node.restarted()
    for _ in range(5):
        node.second()
    (after,) = node.watch.usage()
    assert after.active_ms is not None
    # What was seen since the last writing, less than a minute, is not kept.
    assert idle_ms - 60_000 <= node.now_ms - after.active_ms <= idle_ms + 5000


def test_a_slice_that_was_never_used_is_that_after_a_restart(node: Node) -> None:
    node.watch.open(half())
    node.second()
    node.restarted()
    node.second()
    node.second()
    (sample,) = node.watch.usage()
    assert sample.active_ms is None


def test_a_slice_that_computes_is_written_down_once_a_minute(node: Node) -> None:
    node.node.start(FakeProcess(pid=7))
    node.second()
    node.watch.open(half())
    node.watch.bind(A, 7)
    state, written = node.folder / "open-slices.json", set()
    for _ in range(180):
        node.node.work(7, demand_ms=900)
        node.second()
        written.add(state.read_text())
    assert len(written) == 4
    last_ms = node.now_ms
    node.restarted()
    node.second()
    (sample,) = node.watch.usage()
    assert sample.active_ms is not None
    assert 0 <= last_ms - sample.active_ms < 60_000


def test_activity_that_cannot_be_written_down_ends_no_watch(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.node.start(FakeProcess(pid=7))
    node.second()
    node.watch.open(half())
    node.watch.bind(A, 7)
    (node.folder / "open-slices.partial").mkdir()
    for _ in range(70):
        node.node.work(7, demand_ms=900)
        node.second()
    (sample,) = node.watch.usage()
    assert sample.active_ms == node.now_ms
    # The first look, the first use, and a minute later.
    assert caplog.text.count("cannot be written down") == 3


def test_of_what_an_earlier_release_wrote_the_last_use_is_not_known_so_it_is_not_idle(
    node: Node,
) -> None:
    node.watch.open(half())
    state = node.folder / "open-slices.json"
    content = json.loads(state.read_text())
    for one in content["slices"]:
        del one["active_ms"]
    state.write_text(json.dumps(content))
    node.restarted()
    began_ms = node.now_ms
    node.second()
    (sample,) = node.watch.usage()
    assert sample.active_ms == began_ms


def test_a_closed_slice_stays_closed_after_a_restart(node: Node) -> None:
    node.watch.open(half())
    node.watch.close(A)
    assert node.restarted().slices == ()


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"version": 9, "slices": []}', '{"version": 1, "boot": "", "slices": [{}]}',
     '{"version": 1, "boot": "", "slices": 7}', "\x00"],
)  # fmt: skip
def test_an_unreadable_state_is_set_aside(node: Node, content: str) -> None:
    state = node.folder / "open-slices.json"
    state.write_text(content)
    assert node.restarted().slices == ()
    assert (node.folder / "open-slices.unreadable").read_text() == content
    node.watch.open(half())
    assert node.restarted().slices == (half(),)


def test_after_a_reboot_the_slices_are_open_and_own_no_process(node: Node) -> None:
    node.node.start(FakeProcess(pid=7))
    node.watch.open(half())
    node.watch.bind(A, 7)
    state = node.folder / "open-slices.json"
    content = json.loads(state.read_text())
    state.write_text(json.dumps(content | {"boot": "another"}))
    again = node.restarted()
    assert again.slices == (half(),)
    assert again.reading(A, now_ms=node.now_ms)[1] == ()


def test_who_left_the_tree_is_found_on_the_card_also_after_a_restart(tmp_path: Path) -> None:
    class OneCard(SimulatedGpus):
        def read(self, holdings: object, *, now_ms: int) -> dict[DeviceId, DeviceReading]:
            held = ProcessReading(pid=300, memory_mib=30_000, compute_milli_gpu=0)
            return {DeviceId("sim-0"): replace(NOTHING_KNOWN, processes=(held,))}

    processes = FakeProcesses()
    processes.start(FakeProcess(pid=200, group="/hub"))

    def agent() -> Watch:
        watch = Watch(
            OneCard(simulated_devices(1), processes),
            SliceProcesses(processes, own_uid=0),
            StateFile(tmp_path / "open-slices.json"),
        )
        watch.restore(now_ms=0)
        return watch

    agent().open(half())
    before = agent()
    before.bind(A, 200)
    processes.end(200)
    processes.start(FakeProcess(pid=300, group="/hub"))
    for watch in (before, agent()):
        watch.look(now_ms=1000)
        watch.look(now_ms=2000)
        sample, pids = watch.reading(A, now_ms=2000)
        assert pids == (300,)
        assert sample is not None
        assert sample.memory_used_mib == 30_000


# --- an agent that lost what it knew --------------------------------------------------------


def lose_state(node: Node) -> None:
    (node.folder / "open-slices.json").unlink()
    node.restarted()


def test_a_memory_lasts_as_long_as_the_file(node: Node) -> None:
    node.watch.open(half())
    before = node.watch.memory
    assert node.restarted().memory == before
    lose_state(node)
    assert node.watch.memory != before
    again = node.watch.memory
    assert node.restarted().memory == again


def test_a_slice_used_before_it_was_known_is_not_empty_while_anybody_names_it(node: Node) -> None:
    node.watch.open(half())
    lose_state(node)
    # Of an account of which nothing is known any more.
    node.node.start(FakeProcess(pid=70, uid=2000, claim="a"))
    node.watch.open(half(), used=True)
    assert node.watch.reading(A, now_ms=node.now_ms)[1] == (70,)
    # Also after another restart.
    node.restarted()
    node.second()
    assert node.watch.reading(A, now_ms=node.now_ms)[1] == (70,)
    node.node.end(70)
    assert node.watch.reading(A, now_ms=node.now_ms)[1] == ()


def test_a_slice_whose_processes_are_not_known_any_more_never_looks_idle(node: Node) -> None:
    node.watch.open(half())
    lose_state(node)
    node.node.start(FakeProcess(pid=70, uid=2000, claim="a"))
    node.watch.open(half(), used=True)
    for _ in range(100):
        node.second()
    (sample,) = node.watch.usage()
    assert (sample.compute_percent, sample.memory_used_mib, sample.processes) == (None, None, None)
    assert sample.active_ms == node.now_ms
    # Whoever is bound anew is known, and so is what they do.
    node.watch.bind(A, 70)
    for _ in range(100):
        node.second()
    (sample,) = node.watch.usage()
    assert sample.compute_percent == 0
    assert sample.active_ms is not None
    assert sample.active_ms < node.now_ms


def test_whoever_only_names_a_new_slice_is_not_in_it(node: Node) -> None:
    node.watch.open(half())
    node.node.start(FakeProcess(pid=70, uid=2000, claim="a"))
    assert node.watch.reading(A, now_ms=node.now_ms)[1] == ()


class Card(SimulatedGpus):
    """What the driver says is on every card."""

    listed: tuple[int, ...] | None = ()

    def read(self, holdings: object, *, now_ms: int) -> dict[DeviceId, DeviceReading]:
        processes = None
        if self.listed is not None:
            processes = tuple(
                ProcessReading(pid=pid, memory_mib=100, compute_milli_gpu=None)
                for pid in self.listed
            )
        return {
            one.device_id: replace(NOTHING_KNOWN, processes=processes) for one in self.devices()
        }


def test_a_slice_used_before_it_was_known_is_not_empty_while_strangers_hold_its_card(
    tmp_path: Path,
) -> None:
    processes = FakeProcesses()
    card = Card(simulated_devices(1), processes)
    watch = Watch(
        card, SliceProcesses(processes, own_uid=0), StateFile(tmp_path / "open-slices.json")
    )
    watch.restore(now_ms=0)
    # Neither its tree nor its environment tells whose it is.
    processes.start(FakeProcess(pid=70, uid=2000))
    processes.start(FakeProcess(pid=71, uid=100))
    watch.open(half(), used=True)
    card.listed = (70, 71)
    assert watch.reading(A, now_ms=10_000)[1] == (70,)
    # A service of the system is nobody's notebook.
    card.listed = (71,)
    assert watch.reading(A, now_ms=20_000)[1] == ()
    card.listed = None
    with pytest.raises(GpuError, match="cannot be seen who is on sim-0"):
        watch.reading(A, now_ms=30_000)
