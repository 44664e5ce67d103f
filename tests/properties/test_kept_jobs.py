"""A job's saved memory over random histories: nothing runs twice, and what was said to be kept is there.

The core decides, the errands that touch images are the real ones, on a real disk, and each of them may
be killed before any change that it makes there. Beside them supervisors are killed while they save and
wake, schedulers die before or after they wrote down what they saw, and the agent's machine forgets
for a while what it can do. ``benchmarks.hibernation`` does the same with real processes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from unittest import mock

from builders import World, a_job, a_node, a_pool, a_team
from hypothesis import given, settings
from hypothesis import strategies as st
from properties.test_core_promises import EXAMPLES, many

from gpucommons.gpu.hibernation import folder as layout
from gpucommons.gpu.hibernation.tree import Refused, Saved
from gpucommons.scheduler.core.going_on.hibernating import hibernation_of, kept_image
from gpucommons.scheduler.core.going_on.image_places import hindered_since
from gpucommons.scheduler.core.going_on.ways import way_to_go_on
from gpucommons.scheduler.core.model.going_on import Hibernation, HibernationAbility, ProcessImage
from gpucommons.scheduler.core.model.intents import Pause, PutPools, Resume
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.resources import Quota
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    AttemptStarted,
    NodesObserved,
    Observation,
)
from gpucommons.scheduler.core.model.types import Attempt, AttemptState, PoolName, State, Workload
from gpucommons.scheduler.working_folder import own_image
from gpucommons.scheduler.working_folder.own_image import OwnImage

HERE, OTHER = PoolName("train"), PoolName("other")
ABLE = HibernationAbility(able=True, save_mib_per_s=100, wake_mib_per_s=200)
ABILITIES = (ABLE, ABLE, ABLE, None, HibernationAbility(able=False, because="CRIU is gone"))


class Killed(BaseException):
    """Whoever did it was killed before that."""


@dataclass(frozen=True)
class OnDisk:
    """As much of an image as its owner's errands look at."""

    folder: Path
    bytes: int = 1
    seconds: float = 0.1


@dataclass(frozen=True)
class PretendedTree:
    """The files of a tree, without its processes."""

    folder: Path
    memory: Callable[[], int | None]

    def image(self) -> OnDisk | None:
        place = layout.complete_image(self.folder)
        return None if place is None else OnDisk(place)

    def save(self, _seconds: float, *, most_bytes: int, let_go_s: float | None) -> Saved | Refused:
        remembered = self.memory()
        if remembered is None or not most_bytes:
            return Refused(because="It holds a network connection.", alive=remembered is not None)
        partial = self.folder / layout.SAVING
        partial.mkdir()
        (partial / layout.DESCRIPTION).write_text(json.dumps(remembered))
        partial.rename(self.folder / layout.COMPLETE)
        return Saved(seconds=0.1, image_bytes=1)

    def wake_command(self) -> list[str]:
        return ["wake"]

    def run_command(self, _command: object) -> list[str]:
        return ["run"]


@dataclass
class Machine:
    """Its disk, and the one process of the job that may live on it."""

    root: Path
    #: Steps that the process has done; None = none lives.
    memory: int | None = None
    #: It runs in a tree.
    can_be_saved: bool = False
    #: What the newest image holds.
    saved: int | None = None
    #: All steps that were ever done, in order.
    history: list[int] = field(default_factory=list)
    #: Changes on the disk until whoever makes them is killed; None = nobody is.
    left: int | None = None

    def own(self, attempt: Attempt) -> OwnImage:
        return OwnImage(run=self.root / attempt.attempt_id / "run")

    def runs(self, workload: Workload, before: int) -> list[Path]:
        return [self.own(one).run for one in reversed(workload.attempts[: before - 1])]

    @contextmanager
    def laid_out(self) -> Iterator[None]:
        """Errands of ours, which change the disk step by step."""

        def tree(own: OwnImage) -> PretendedTree:
            return PretendedTree(own.folder / "tree", lambda: self.memory)

        with (
            mock.patch.object(OwnImage, "tree", property(tree)),
            mock.patch.object(Path, "rename", self._perhaps(Path.rename)),
            mock.patch.object(Path, "replace", self._perhaps(Path.replace)),
            mock.patch.object(Path, "mkdir", self._perhaps(Path.mkdir)),
            mock.patch.object(own_image, "remove", self._perhaps(own_image.remove)),
        ):
            yield

    def _perhaps(self, change: Callable[..., object]) -> Callable[..., object]:
        def changed(*words: object, **more: object) -> object:
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    raise Killed
            return change(*words, **more)

        return changed


class KeptJob:
    """One job in two pools of a machine, and whatever may happen to it."""

    def __init__(self, root: Path) -> None:
        quotas = {name: Quota(guaranteed_milli_gpu=1000) for name in (HERE, OTHER)}
        self.world = World(
            *self._nodes(ABLE),
            teams=[replace(a_team(), quotas=quotas)],
            pools=[a_pool(HERE), a_pool(OTHER)],
        )
        self.machine = Machine(root)
        self.job = self.world.submit(a_job("kept", pools=(HERE, OTHER), max_restarts=100))
        self.started_anew = 0

    @staticmethod
    def _nodes(can: HibernationAbility | None) -> tuple[object, ...]:
        return tuple(
            a_node(name, gpus=1, pool=pool, hibernation=can)
            for name, pool in (("n1", HERE), ("n2", OTHER))
        )

    @property
    def found(self) -> Workload:
        return self.world.get(self.job)

    def why_not(self) -> str:
        cluster = self.world.cluster
        return hindered_since(self.found, cluster.pools, cluster.nodes)

    def said_to_be_kept(self) -> bool:
        way = way_to_go_on(self.found, self.why_not())
        return way is not None and way.image is not None

    # --- what may happen ---------------------------------------------------------------------

    def work(self, number: int) -> None:
        if self.machine.memory is not None:
            for _ in range(number + 1):
                self.machine.memory += 1
                self.machine.history.append(self.machine.memory)

    def pause(self, _: int) -> None:
        self.world.ask(Pause(workload_id=self.job))

    def resume(self, _: int) -> None:
        self.world.ask(Resume(workload_id=self.job))

    def wait(self, _: int) -> None:
        self.world.wait(200_000)

    def ability(self, number: int) -> None:
        nodes = self._nodes(ABILITIES[number % len(ABILITIES)])
        self.world.step(NodesObserved(executor="fake", nodes=nodes))  # type: ignore[arg-type] # nodes

    def switch(self, number: int) -> None:
        modes = ("on" if number & 1 else "off", "on" if number & 2 else "off")
        pools = tuple(
            a_pool(name, hibernation=mode) for name, mode in zip((HERE, OTHER), modes, strict=True)
        )
        self.world.ask(PutPools(pools=pools))

    def kill(self, _: int) -> None:
        """The supervisor of what runs, with all that it watches over."""
        current = self.found.current
        if current is not None and self.machine.memory is not None:
            self.machine.memory = None
            self._ended_unseen(current)

    def go_on(self, number: int) -> None:
        """The executor carries out what was decided; ``number`` says who is killed, and when."""
        current = self.found.current
        if current is None:
            return
        if self.machine.memory is not None and current.state is AttemptState.STOPPING:
            self._stop(current, number)
        elif current.state is AttemptState.STARTING and self.machine.memory is None:
            self._start(current, number)
        elif self.machine.memory is None:
            self._ended_unseen(current)

    # --- the executor, its supervisors and errands ----------------------------------------------

    def _start(self, attempt: Attempt, number: int) -> None:
        cluster, machine = self.world.cluster, self.machine
        node = cluster.nodes[attempt.placements[0].node_id]
        known = hibernation_of(self.found.spec, attempt, cluster.pools[node.pool], node)
        kept, was_said = kept_image(self.found), self.said_to_be_kept()
        if kept is not None and node.hibernation is None:
            return  # it is waited for
        promised = "" if kept is None else kept[1].sha256
        earlier = machine.runs(self.found, attempt.number)
        own = machine.own(attempt)
        own.run.mkdir(parents=True, exist_ok=True)
        if known is None or known.hindrance:
            self._run(lambda: own_image.drop([own.run, *earlier]), None)
            machine.memory, machine.can_be_saved = 0, False
            because = "" if known is None else known.hindrance
            told = Hibernation(hindrance=because, not_woken=because if kept else "")
            self._runs(attempt, told, was_said=was_said)
            return
        start = self._run(lambda: own.ready(earlier, attempt.number, promised), number)
        if start is None and number % 2:
            # Only the errand was killed: its supervisor sends another.
            start = self._run(lambda: own.ready(earlier, attempt.number, promised), None)
        if start is None:
            self._ended_unseen(attempt)
            return
        told = replace(known, not_woken="it was not found as it was saved" if promised else "")
        machine.memory, machine.can_be_saved = 0, True
        if start["woken_from"] is not None:  # type: ignore[index] # a document
            told = replace(known, woken_from=start["woken_from"])  # type: ignore[index] # as above
            machine.memory = self._woken(own, number)
        if machine.memory is None:
            self._ended_unseen(attempt)
            return
        self._runs(attempt, told, was_said=was_said)

    def _woken(self, own: OwnImage, number: int) -> int | None:
        """What it remembers; None where its supervisor was killed on the way."""
        tree = own.folder / "tree"
        place = layout.complete_image(tree)
        assert place is not None
        remembered: int = json.loads((place / layout.DESCRIPTION).read_text())
        assert remembered == self.machine.saved, "an older image was woken"
        if place.name == layout.COMPLETE:
            place.rename(tree / layout.WAKING)
        if number == 13:
            return None
        layout.discard(tree / layout.USED)
        (tree / layout.WAKING).rename(tree / layout.USED)
        return None if number == 14 else remembered

    def _runs(self, attempt: Attempt, told: Hibernation, *, was_said: bool) -> None:
        self.started_anew += told.woken_from is None
        if was_said:
            assert told.woken_from is not None or told.not_woken, "lost without a word"
        self._see(AttemptStarted(attempt_id=attempt.attempt_id, hibernation=told))

    def _stop(self, attempt: Attempt, number: int) -> None:
        machine, stop = self.machine, attempt.stop
        assert stop is not None
        own = machine.own(attempt)
        if not (stop.hibernates and machine.can_be_saved):
            machine.memory = None
            self._see(AttemptEnded(attempt_id=attempt.attempt_id, exit_code=-15, told=True))
            return
        bounds = (int(number != 11), 1)
        remembered = machine.memory
        saved = self._run(lambda: own.save(attempt.number, 1e12, bounds), number)
        if own.has_image():
            machine.saved = remembered
        machine.memory = None
        if saved is None or number in {10, 12}:
            # Its user may have made it impossible to count what it left.
            self._ended_unseen(attempt, counts=number != 10)
            return
        image = self._image(own.facts()) if "saved" in saved else None  # type: ignore[operator] # a document
        not_saved = "" if image else str(saved["refused"])  # type: ignore[index] # as above
        self._see(
            AttemptEnded(
                attempt_id=attempt.attempt_id,
                exit_code=None if image else -15,
                told=True,
                image=image,
                not_saved=not_saved,
            )
        )

    def _ended_unseen(self, attempt: Attempt, *, counts: bool = True) -> None:
        """Its supervisor was killed: another looks what it left, as ``end_of_killed`` does."""
        was_said = self.said_to_be_kept()
        runs = [self.machine.own(attempt).run, *self.machine.runs(self.found, attempt.number)]
        found = (OwnImage(run=run).facts() for run in runs)
        facts = next(filter(None, found), None) if counts else None
        began = attempt.started_ms is not None
        lost = "" if facts or began else "its supervisor was killed while it was being woken"
        known = Hibernation(not_woken=lost) if lost and kept_image(self.found) else None
        self._see(
            AttemptEnded(
                attempt_id=attempt.attempt_id,
                exit_code=None,
                killed=True,
                image=None if facts is None else self._image(facts),
                hibernation=known,
            )
        )
        if was_said and not began:
            said = known is not None or bool(self.why_not())
            assert self.said_to_be_kept() or is_final(self.found) or said, "lost without a word"

    @staticmethod
    def _image(facts: dict[str, object]) -> ProcessImage:
        return ProcessImage(user="ann", **facts)  # type: ignore[arg-type] # facts of an image

    def _run(self, errand: Callable[[], object], number: int | None) -> object | None:
        """What an errand says; None where it was killed."""
        self.machine.left = number if number is not None and number < 10 else None
        try:
            return errand() or {}
        except Killed:
            return None
        finally:
            self.machine.left = None

    def _see(self, observation: Observation) -> None:
        """A scheduler that dies before its commit sees it again, and so does one that dies after it."""
        before, now = self.world.cluster, self.world.now
        self.world.step(observation)
        if self.dies == 1:
            self.world.cluster, self.world.now = before, now
            self.world.step(observation)
        elif self.dies == 2:
            self.world.step(observation)

    dies = 0

    # --- what must hold ------------------------------------------------------------------------

    def check(self) -> None:
        machine = self.machine
        images = [one for one in self.found.attempts if machine.own(one).has_image()]
        assert len(images) <= 1
        assert images or machine.memory is not None or not self.said_to_be_kept(), "not on the disk"
        if machine.memory is not None:
            assert not images, "what runs could be woken once more"
        repeated = sum(after <= before for before, after in pairwise(machine.history))
        assert repeated <= max(0, self.started_anew - 1), "steps were repeated without a start anew"
        if self.found.state is State.RUNNING:
            assert machine.memory is not None


#: Below 10 an errand is killed, from 10 to 14 others are or a save is refused; mostly nothing is.
who = st.one_of(st.integers(0, 14), st.just(20), st.just(20))
ROUNDS = st.tuples(
    who,
    st.integers(0, 3),
    st.sampled_from(("pause", "pause", "pause", "kill")),
    who,
    st.sampled_from(("wait", "wait", "wait", "ability", "switch", "pause", "kill")),
    st.integers(0, 4),
)


def play(one: KeptJob, round_: tuple[int, int, str, int, str, int]) -> Iterator[None]:
    """It begins or goes on, works, and is stopped, with something else on the way."""
    start, work, end, stop, between, one.dies = round_
    steps = (
        ("go_on", start),
        ("work", work),
        (end, 0),
        ("go_on", stop),
        ("resume", 0),
        ("wait", 0),
        (between, stop),
        ("go_on", stop),
        ("resume", 0),
        ("wait", 0),
    )
    for name, number in steps:
        if is_final(one.found):
            return
        getattr(one, name)(number)
        yield


#: Each is long, and all of it is on a disk.
FEW = settings(many, max_examples=EXAMPLES if EXAMPLES > 100 else 10)


@FEW
@given(rounds=st.lists(ROUNDS, min_size=3, max_size=8))
def test_nothing_is_doubled_and_nothing_lost_that_was_said_to_be_kept(
    rounds: list[tuple[int, int, str, int, str, int]],
) -> None:
    with tempfile.TemporaryDirectory() as root:
        one = KeptJob(Path(root))
        with one.machine.laid_out():
            for events in rounds:
                for _ in play(one, events):
                    one.check()
