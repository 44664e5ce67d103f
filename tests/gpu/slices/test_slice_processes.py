from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

import pytest

from gpucommons.gpu.linux.fake_processes import FakeProcess, FakeProcesses
from gpucommons.gpu.linux.processes import LinuxProcesses, ProcessStat
from gpucommons.gpu.slices.slice_processes import Roots, SliceProcesses
from gpucommons.gpu.slices.slices import SliceId

A, B = SliceId("a"), SliceId("b")


def pids(slices: SliceProcesses) -> dict[SliceId, tuple[int, ...]]:
    return {
        slice_id: tuple(sorted(stat.pid for stat in stats))
        for slice_id, stats in slices.refresh().items()
    }


@pytest.fixture
def node() -> FakeProcesses:
    node = FakeProcesses()
    node.start(FakeProcess(pid=1, parent=0, uid=0))
    node.start(FakeProcess(pid=100))
    return node


@pytest.fixture
def slices(node: FakeProcesses) -> SliceProcesses:
    slices = SliceProcesses(node, own_uid=1500)
    slices.open(A)
    slices.open(B)
    return slices


def test_a_slice_owns_the_tree_below_its_root(node: FakeProcesses, slices: SliceProcesses) -> None:
    slices.bind(A, 100)
    node.start(FakeProcess(pid=101, parent=100))
    node.start(FakeProcess(pid=102, parent=101))
    node.start(FakeProcess(pid=103, parent=1))
    assert pids(slices) == {A: (100, 101, 102), B: ()}


def test_children_seen_before_the_bind_belong_to_it(
    node: FakeProcesses, slices: SliceProcesses
) -> None:
    node.start(FakeProcess(pid=101, parent=100))
    slices.refresh()
    assert slices.bind(A, 100)
    assert pids(slices)[A] == (100, 101)


def test_an_orphan_stays_in_its_slice(node: FakeProcesses, slices: SliceProcesses) -> None:
    slices.bind(A, 100)
    node.start(FakeProcess(pid=101, parent=100))
    slices.refresh()
    node.end(100)
    assert pids(slices)[A] == (101,)
    node.start(FakeProcess(pid=102, parent=101))
    assert pids(slices)[A] == (101, 102)


def test_the_nearest_root_wins(node: FakeProcesses, slices: SliceProcesses) -> None:
    slices.bind(A, 100)
    node.start(FakeProcess(pid=101, parent=100))
    node.start(FakeProcess(pid=102, parent=101))
    assert pids(slices)[A] == (100, 101, 102)
    slices.bind(B, 101)
    assert pids(slices) == {A: (100,), B: (101, 102)}


def test_a_reused_pid_is_another_process(node: FakeProcesses, slices: SliceProcesses) -> None:
    slices.bind(A, 100)
    node.start(FakeProcess(pid=101, parent=100))
    slices.refresh()
    node.end(101)
    node.start(FakeProcess(pid=101, parent=1))
    assert pids(slices)[A] == (100,)


def test_a_reused_root_pid_owns_nothing(node: FakeProcesses, slices: SliceProcesses) -> None:
    slices.bind(A, 100)
    slices.refresh()
    node.end(100)
    node.start(FakeProcess(pid=100))
    node.start(FakeProcess(pid=101, parent=100))
    assert pids(slices)[A] == ()


def test_a_stranger_whose_pid_was_reused_is_found_within_ten_looks(
    node: FakeProcesses, slices: SliceProcesses
) -> None:
    slices.bind(A, 100)
    node.start(FakeProcess(pid=200, parent=1))
    slices.refresh()
    node.end(200)
    node.start(FakeProcess(pid=200, parent=100))
    assert 200 in [pids(slices)[A] for _ in range(10)][-1]


def test_a_parent_younger_than_its_child_is_no_parent(
    node: FakeProcesses, slices: SliceProcesses
) -> None:
    node.start(FakeProcess(pid=300, parent=100, start=50))
    node.end(100)
    node.start(FakeProcess(pid=301, parent=100, start=60))
    node.start(FakeProcess(pid=100, start=70))
    slices.bind(A, 100)
    assert pids(slices)[A] == (100,)


def test_a_zombie_holds_nothing(node: FakeProcesses, slices: SliceProcesses) -> None:
    slices.bind(A, 100)
    node.start(FakeProcess(pid=101, parent=100))
    node.die(101)
    assert pids(slices)[A] == (100,)
    node.die(100)
    assert pids(slices)[A] == ()


def test_an_orphan_that_was_never_seen_is_known_by_its_environment(
    node: FakeProcesses, slices: SliceProcesses
) -> None:
    slices.bind(A, 100)
    node.start(FakeProcess(pid=200, parent=1, claim="a"))
    assert pids(slices)[A] == (100, 200)


def test_the_agents_own_user_may_claim_a_slice_that_nothing_was_bound_to(
    node: FakeProcesses, slices: SliceProcesses
) -> None:
    node.start(FakeProcess(pid=200, claim="a", uid=1500))
    node.start(FakeProcess(pid=201, claim="a", uid=1000))
    assert pids(slices)[A] == (200,)


def test_a_process_seen_before_its_exec_is_recognised_a_look_later(
    node: FakeProcesses, slices: SliceProcesses
) -> None:
    node.start(FakeProcess(pid=200, uid=1500, start=60))
    assert pids(slices)[A] == ()
    node.start(FakeProcess(pid=200, uid=1500, start=60, claim="a"))
    assert pids(slices)[A] == (200,)


def test_another_users_claim_counts_for_nothing(
    node: FakeProcesses, slices: SliceProcesses
) -> None:
    slices.bind(A, 100)
    node.start(FakeProcess(pid=200, parent=1, claim="a", uid=1001))
    assert pids(slices)[A] == (100,)


@pytest.mark.parametrize("claim", ["b", "nowhere", "", "../a"])
def test_a_process_in_a_tree_cannot_claim_another_slice(
    node: FakeProcesses, slices: SliceProcesses, claim: str
) -> None:
    slices.bind(A, 100)
    node.start(FakeProcess(pid=101, parent=100, claim=claim))
    assert pids(slices) == {A: (100, 101), B: ()}


def test_binding_what_has_ended_is_said_and_harmless(
    node: FakeProcesses, slices: SliceProcesses
) -> None:
    assert not slices.bind(A, 999)
    node.die(100)
    assert not slices.bind(A, 100)
    assert pids(slices)[A] == ()


def test_a_closed_slice_gives_its_processes_back(
    node: FakeProcesses, slices: SliceProcesses
) -> None:
    slices.bind(A, 100)
    slices.bind(B, 100)
    node.start(FakeProcess(pid=101, parent=100))
    slices.refresh()
    slices.close(B)
    slices.close(B)
    assert pids(slices) == {A: (100, 101)}


def test_roots_from_before_a_restart_are_believed_only_with_their_start(
    node: FakeProcesses,
) -> None:
    node.start(FakeProcess(pid=101, parent=100))
    started = node.stat(100)
    assert started is not None
    right, wrong = SliceProcesses(node, own_uid=1500), SliceProcesses(node, own_uid=1500)
    right.open(A, Roots(starts={100: started.start}, uids={1000}))
    wrong.open(A, Roots(starts={100: started.start + 1}, uids={1000}))
    assert pids(right)[A] == (100, 101)
    assert pids(wrong)[A] == ()


def test_a_chain_of_thousands_of_processes_is_one_tree(
    node: FakeProcesses, slices: SliceProcesses
) -> None:
    slices.bind(A, 100)
    for pid in range(5000, 1000, -1):
        node.start(FakeProcess(pid=pid, parent=pid - 1 if pid > 1001 else 100, start=pid))
    assert 1001 in pids(slices)[A]
    for _ in range(20):
        members = pids(slices)[A]
    assert len(members) == 4001


def test_who_left_the_tree_unseen_and_holds_a_device_is_counted_all_the_same(
    node: FakeProcesses, slices: SliceProcesses
) -> None:
    node.start(FakeProcess(pid=200, group="/hub"))
    slices.bind(A, 200)
    node.start(FakeProcess(pid=300, group="/hub"))
    holders = {
        "at a desktop": FakeProcess(pid=301, group="/desktop"),
        "somebody else": FakeProcess(pid=302, group="/hub", uid=1001),
        "the agent's account": FakeProcess(pid=303, group="/hub", uid=1500),
        "without groups": FakeProcess(pid=304),
    }
    for holder in holders.values():
        node.start(holder)
    slices.refresh()
    slices.adopt([300, 999, *(holder.pid for holder in holders.values())])
    assert pids(slices) == {A: (200, 300), B: ()}

    node.start(FakeProcess(pid=305, parent=300))
    node.end(200)
    assert pids(slices)[A] == (300, 305)


class Counting(FakeProcesses):
    """Counts how often everything is listed, and who is read."""

    def __init__(self) -> None:
        super().__init__()
        self.listed = 0
        self.read: list[int] = []

    def pids(self) -> Iterable[int]:
        self.listed += 1
        return super().pids()

    def stat(self, pid: int) -> ProcessStat | None:
        self.read.append(pid)
        return super().stat(pid)


def test_while_nobody_is_born_only_those_of_slices_are_looked_at() -> None:
    node = Counting()
    processes = SliceProcesses(node, own_uid=1500)
    for pid in range(10, 60):
        node.start(FakeProcess(pid=pid))
    processes.open(A)
    processes.bind(A, 10)
    processes.refresh()
    processes.refresh()
    node.listed, node.read = 0, []
    assert [stat.pid for stat in processes.refresh()[A]] == [10]
    assert (node.listed, node.read) == (0, [10])
    # One that is born is found at once, and one that ended is gone at once.
    node.start(FakeProcess(pid=99, parent=10))
    assert [stat.pid for stat in processes.refresh()[A]] == [10, 99]
    node.end(10)
    assert [stat.pid for stat in processes.refresh()[A]] == [99]


def test_who_was_bound_while_nobody_was_born_is_found() -> None:
    node = Counting()
    processes = SliceProcesses(node, own_uid=1500)
    node.start(FakeProcess(pid=10))
    processes.open(A)
    processes.refresh()
    processes.refresh()
    processes.refresh()
    processes.bind(A, 10)
    assert [stat.pid for stat in processes.refresh()[A]] == [10]


@pytest.mark.skipif(sys.platform != "linux", reason="of /proc")
def test_every_birth_on_this_machine_is_noticed() -> None:
    processes = LinuxProcesses()
    before = processes.births()
    assert before is not None
    subprocess.run(["true"], check=True)
    assert processes.births() != before
