"""Counts what a lease passes through on its way from its turn in a cycle to its grant.

``PYTHONPATH=tests/samples python docs/lease_way.py [-v]`` runs two notebooks through the core: one finds
a free slice, one has to win it back. Followed is each call that is handed the workload, once for each
caller and callee; fields that are read of it are no calls. *Entered* are the files (folders) of these
functions; a *return* is each time that the way comes back to one that it had left.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType

from builders import World, a_job, a_node, a_notebook, a_team

from gpucommons.scheduler import core
from gpucommons.scheduler.core.model.types import Workload
from gpucommons.scheduler.core.passes import notebooks

_CORE = Path(core.__file__).resolve().parent


class Way:
    """The files that a workload's calls lead through, in order."""

    def __init__(self, workload: Workload) -> None:
        """Begin in the pass of notebooks."""
        self.files = ["passes/notebooks.py"]
        self.calls: list[tuple[str, str]] = []
        self._id = workload.workload_id
        #: A function that is followed, or None for one that is not.
        self._stack: list[tuple[str, str] | None] = [(self.files[0], "admit_or_reclaim")]

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Hear of a call or a return, from ``sys.setprofile``."""
        if event == "call":
            self._stack.append(self._followed(frame))
        elif event == "return" and self._stack and self._stack.pop() is not None:
            self.files.append(self._caller()[0])

    def _caller(self) -> tuple[str, str]:
        return next((one for one in reversed(self._stack) if one is not None), ("", ""))

    def _followed(self, frame: FrameType) -> tuple[str, str] | None:
        code = frame.f_code
        path = Path(code.co_filename).resolve()
        if not path.is_relative_to(_CORE) or _is_read(code) or not self._is_handed(frame):
            return None
        called = (str(path.relative_to(_CORE)), code.co_name)
        call = (" ".join(self._caller()), " ".join(called))
        if call in self.calls:
            return None
        self.calls.append(call)
        self.files.append(called[0])
        return called

    def _is_handed(self, frame: FrameType) -> bool:
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = (frame.f_locals.get(name) for name in names)
        return any(isinstance(one, Workload) and one.workload_id == self._id for one in given)


def _is_read(code: CodeType) -> bool:
    """A property of the workload itself, or a part of another function."""
    return code.co_name.startswith("<") or isinstance(
        getattr(Workload, code.co_name, None), property
    )


def count(places: Sequence[str]) -> tuple[int, int]:
    """How many were entered, and how often one that was left was come back to."""
    steps = [one for one, before in zip(places, ["", *places], strict=False) if one != before]
    return len(set(steps)), len(steps) - len(set(steps))


def way(world: World) -> Way:
    """The way of a notebook that asks now."""
    ways: list[Way] = []
    turn = notebooks.admit_or_reclaim

    def followed(cycle: notebooks.CycleState, workload: Workload) -> None:
        ways.append(Way(workload))
        sys.setprofile(ways[-1])
        try:
            turn(cycle, workload)
        finally:
            sys.setprofile(None)

    notebooks.admit_or_reclaim = followed
    try:
        world.submit(a_notebook())
    finally:
        notebooks.admit_or_reclaim = turn
    return ways[0]


def free() -> World:
    """A team's slice is free."""
    return World(teams=[a_team(fixed_milli_gpu=1000)])


def lent() -> World:
    """Another team has borrowed it."""
    world = World(a_node(gpus=1), teams=[a_team(fixed_milli_gpu=1000), a_team("speech")])
    world.run(a_job(team="speech"))
    return world


def main(arguments: Sequence[str]) -> None:
    """Print both ways."""
    worlds: tuple[Callable[[], World], ...] = (free, lent)
    for world in worlds:
        found = way(world())
        for what, places in (
            ("files", found.files),
            ("folders", [one.split("/")[0] for one in found.files]),
        ):
            entered, returns = count(places)
            print(f"{world.__name__}: {entered} {what} entered, {returns} returns")  # noqa: T201 - for people
        for call in found.calls if "-v" in arguments else ():
            print("   ", *call, sep="  ")  # noqa: T201 - for people


if __name__ == "__main__":
    main(sys.argv[1:])
