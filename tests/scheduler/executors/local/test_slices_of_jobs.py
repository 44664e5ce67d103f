"""A job's slice: nothing starts on one whose limit is not in force."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from launches import a_launch, attempt_id, ended, lines, python

from gpucommons.gpu.client.agent_client import Prepared, SliceReading
from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.errors import AgentUnavailable, LimitNotInForce, UnknownSlice
from gpucommons.gpu.providers import Injection
from gpucommons.gpu.slices.slices import GpuSlice, SliceId
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.types import Millis, NodeId, PoolName
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.local.job_slices import JobSlices
from gpucommons.scheduler.executors.local.local import LocalExecutor, LocalSettings

CARD = Device(device_id=DeviceId("GPU-0"), index=0, kind="A100-40", memory_mib=40960)
NODE = Node(
    node_id=NodeId("here"), pool=PoolName("gpu"), devices=(CARD,), cpu_milli=4000, memory_mib=8000
)


class ScriptedAgent:
    """Makes slices as told."""

    memory = "first"

    def __init__(self, injection: Injection) -> None:
        self.injection = injection
        self.error: Exception | None = None
        self.prepared: list[tuple[GpuSlice, int | None]] = []

    def prepare(self, gpu_slice: GpuSlice, *, uid: int | None = None) -> Prepared:
        if self.error is not None:
            raise self.error
        self.prepared.append((gpu_slice, uid))
        return Prepared(socket=Path("/x"), injection=self.injection, isolation="kernel")

    def bind(self, _slice_id: SliceId, _pid: int) -> bool:
        return True

    def reading(self, _slice_id: SliceId) -> SliceReading:
        return SliceReading(sample=None, pids=())

    def close_slice(self, _slice_id: SliceId) -> None:
        pass


def a_gpu_launch(*command: str, **spec: object) -> Launch:
    launch = a_launch(*command, **spec)
    placements = tuple(
        replace(p, slice_id=SliceId("s-0"), device_ids=(CARD.device_id,), milli_gpu=500)
        for p in launch.attempt.placements
    )
    return replace(launch, attempt=replace(launch.attempt, placements=placements))


@pytest.fixture
def running(tmp_path: Path, home: Path) -> Iterator[Callable[[ScriptedAgent], LocalExecutor]]:
    made: list[LocalExecutor] = []

    def make(agent: ScriptedAgent) -> LocalExecutor:
        settings = LocalSettings(
            state_dir=tmp_path / "state",
            home_of=lambda _user: home,
            nodes=lambda: (NODE,),
            environ={"PATH": os.environ["PATH"]},
        )
        made.append(LocalExecutor(settings, agent))  # type: ignore[arg-type] # the calls that it makes
        return made[-1]

    yield make
    for executor in made:
        executor.close()


def test_a_limit_that_is_not_in_force_is_a_refusal_with_the_reason(
    running: Callable[[ScriptedAgent], LocalExecutor],
) -> None:
    agent = ScriptedAgent(Injection())
    agent.error = LimitNotInForce("The driver reports no limit for slice s-0.")
    executor = running(agent)
    with pytest.raises(BadRequest, match=r"nothing started. The driver reports no limit"):
        executor.start(a_gpu_launch(*python("print('ran')")))
    assert not (executor.folder(a_gpu_launch("x").attempt.attempt_id).path).exists()


def test_an_agent_that_is_away_is_asked_again_and_nothing_runs_meanwhile(
    running: Callable[[ScriptedAgent], LocalExecutor],
) -> None:
    agent = ScriptedAgent(Injection())
    agent.error = AgentUnavailable()
    executor = running(agent)
    launch = a_gpu_launch(*python("print('ran')"))
    with pytest.raises(AgentUnavailable):
        executor.start(launch)
    agent.error = None
    executor.start(launch)
    assert ended(executor).exit_code == 0


def test_a_worker_gets_what_the_agent_made_and_its_own_library_path_behind_it(
    running: Callable[[ScriptedAgent], LocalExecutor],
) -> None:
    agent = ScriptedAgent(
        Injection(env={"CUDA_VISIBLE_DEVICES": "GPU-0"}, prepend={"LD_LIBRARY_PATH": "/slice"})
    )
    executor = running(agent)
    show = "import os; print(os.environ['LD_LIBRARY_PATH'], os.environ['CUDA_VISIBLE_DEVICES'])"
    launch = a_gpu_launch(*python(show), env={"LD_LIBRARY_PATH": "/mine"})
    executor.start(launch)
    assert ended(executor).exit_code == 0
    assert lines(executor, launch) == ["/slice:/mine GPU-0"]
    ((gpu_slice, uid),) = agent.prepared
    assert (gpu_slice.memory_mib, uid) == (19866, None)


def test_a_worker_is_in_its_group_before_its_command_runs(
    running: Callable[[ScriptedAgent], LocalExecutor], tmp_path: Path
) -> None:
    group = tmp_path / "group"
    group.mkdir()
    (group / "cgroup.procs").touch()
    executor = running(ScriptedAgent(Injection(cgroup=str(group))))
    show = f"import os; print(open({str(group / 'cgroup.procs')!r}).read() == str(os.getpid()))"
    launch = a_gpu_launch(*python(show))
    executor.start(launch)
    assert ended(executor).exit_code == 0
    assert lines(executor, launch) == ["True"]


def test_a_worker_that_cannot_enter_its_group_never_learns_its_command(
    running: Callable[[ScriptedAgent], LocalExecutor], tmp_path: Path
) -> None:
    witness = tmp_path / "witness"
    executor = running(ScriptedAgent(Injection(cgroup=str(tmp_path / "nowhere"))))
    launch = a_gpu_launch(*python(f"open({str(witness)!r}, 'w')"))
    executor.start(launch)
    end = ended(executor)
    assert end.start_failed
    assert "could not be put under the limit of its slice" in end.text
    assert not witness.exists()
    executor.signal(launch.attempt, now_ms=Millis(1))


class ForgetfulAgent(ScriptedAgent):
    """Lost its slices; finds out who is in one that was used."""

    def __init__(self) -> None:
        super().__init__(Injection())
        self.open_now: dict[SliceId, tuple[int, ...]] = {}
        self.inside: tuple[int, ...] = (4711,)
        self.bound: list[int] = []

    def open(self, gpu_slice: GpuSlice, *, used: bool) -> None:
        self.open_now[gpu_slice.slice_id] = self.inside if used else ()

    def bind(self, slice_id: SliceId, pid: int) -> bool:
        if slice_id not in self.open_now:
            raise UnknownSlice
        self.bound.append(pid)
        return True

    def reading(self, slice_id: SliceId) -> SliceReading:
        if slice_id not in self.open_now:
            raise UnknownSlice
        return SliceReading(sample=None, pids=self.open_now[slice_id])


@pytest.fixture
def slices() -> tuple[ForgetfulAgent, JobSlices]:
    agent = ForgetfulAgent()
    return agent, JobSlices(
        agent,  # type: ignore[arg-type] # the calls that it makes
        nodes=lambda: (NODE,),
        mps_of=lambda _pool: None,
    )


def test_a_slice_that_the_agent_lost_is_not_empty_before_the_agent_has_looked(
    slices: tuple[ForgetfulAgent, JobSlices],
) -> None:
    agent, known = slices
    attempt = a_gpu_launch("x").attempt
    assert not known.are_empty(attempt, were_used=True)
    agent.open_now[SliceId("s-0")] = ()
    assert known.are_empty(attempt, were_used=True)


def test_a_slice_that_was_never_used_is_empty_though_the_agent_never_had_it(
    slices: tuple[ForgetfulAgent, JobSlices],
) -> None:
    agent, known = slices
    assert known.are_empty(a_gpu_launch("x").attempt, were_used=False)
    assert agent.open_now == {}


def test_an_agent_that_lost_what_it_knew_is_told_again_which_process_is_whose(
    slices: tuple[ForgetfulAgent, JobSlices],
) -> None:
    agent, known = slices
    attempt = a_gpu_launch("x").attempt
    known.bind(attempt, {"0": 70})
    known.bind(attempt, {"0": 70})
    assert agent.bound == [70]
    agent.open_now.clear()
    agent.memory = "second"
    known.bind(attempt, {"0": 70})
    assert agent.bound == [70, 70]
    assert agent.open_now == {SliceId("s-0"): (4711,)}


def test_a_slice_that_could_not_be_closed_is_closed_before_the_next_one_is_made(
    slices: tuple[ForgetfulAgent, JobSlices], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, known = slices
    attempt = a_gpu_launch("x").attempt
    agent.open_now[SliceId("s-0")] = ()

    def away(_slice_id: SliceId) -> None:
        raise AgentUnavailable

    monkeypatch.setattr(agent, "close_slice", away)
    known.close(attempt.attempt_id, attempt)
    assert SliceId("s-0") in agent.open_now
    monkeypatch.setattr(agent, "close_slice", agent.open_now.pop)
    following = replace(attempt, attempt_id=attempt_id(2), placements=())
    known.prepare(following, None)
    assert agent.open_now == {}
