"""Machines on which the executor's contract holds: one in virtual time, one of real processes."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpucommons.scheduler.core.model.types import AttemptId, Millis
from gpucommons.scheduler.executors.base import Executor, Launch
from gpucommons.scheduler.executors.fake import FakeExecutor, FakeWorld, Script
from gpucommons.scheduler.executors.local.local import LocalExecutor, LocalSettings
from gpucommons.scheduler.in_pod.told_files import FINISHED_FILE, TOLD_FILE

PATIENCE_S = 90


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """What the workers of an attempt do: they print, and then end, or wait for SIGTERM, or ignore it."""

    lines: tuple[str, ...] = ("ready",)
    exit_code: int | None = None
    ignores_term: bool = False
    #: At SIGTERM the first worker leaves with 0, as one that saved and thinks that this was all.
    first_leaves_content: bool = False
    #: At SIGTERM (or SIGUSR1, which it else ignores) every worker leaves with 0.
    leaves_content: bool = False
    #: Before it waits, or ends, it leaves word: ``should_stop`` was true, its work is done.
    says_told: bool = False
    says_finished: bool = False
    no_such_command: bool = False


RUNS = Behaviour()
ENDS = Behaviour(exit_code=0)


def at_term(behaviour: Behaviour) -> str:
    """What a worker's Python does with SIGTERM, as an expression."""
    if behaviour.ignores_term:
        return "signal.SIG_IGN"
    if behaviour.first_leaves_content:
        return "lambda *_: os._exit(143 * (os.environ['GPUCOMMONS_RANK'] != '0'))"
    if behaviour.leaves_content:
        return "lambda *_: os._exit(0)"
    return "lambda *_: os._exit(143)"


def at_usr1(behaviour: Behaviour) -> str:
    """What it does with SIGUSR1, as a statement."""
    content = "lambda *_: os._exit(0)" if behaviour.leaves_content else "signal.SIG_IGN"
    return f"signal.signal(signal.SIGUSR1, {content});"


def words_left(behaviour: Behaviour) -> str:
    """What a worker's Python leaves in its attempt's folder, as statements."""
    said = {TOLD_FILE: behaviour.says_told, FINISHED_FILE: behaviour.says_finished}
    here = "os.environ['GPUCOMMONS_ATTEMPT_DIR']"
    return "".join(f"open({here} + '/{name}', 'w').close();" for name in said if said[name])


def before_it_runs(behaviour: Behaviour) -> str:
    """All that it does before it prints, as statements."""
    handler = f"signal.signal(signal.SIGTERM, {at_term(behaviour)});"
    return f"{handler}{at_usr1(behaviour)}{words_left(behaviour)}"


#: Where nobody answers.
NOWHERE = "http://127.0.0.1:1"


class Rig(Protocol):
    """One machine, and the executor that works on it now."""

    executor: Executor
    #: The scheduler's API, as the machine's workers reach it.
    api_url: str
    #: The machine, as placements name it.
    node: str

    def restart(self) -> None:
        """The scheduler dies and comes back: a new executor on the same machine."""
        ...

    def command(self, behaviour: Behaviour) -> tuple[str, ...]:
        """A command that behaves so."""
        ...

    def now(self) -> Millis:
        """The machine's time."""
        ...

    def wait(self, ms: int) -> None:
        """Let time pass."""
        ...

    def starts(self, launch: Launch) -> int:
        """How often the first worker of an attempt began to run."""
        ...

    def clear(self) -> None:
        """Leave nothing behind."""
        ...


class FakeRig:
    node = "here"
    api_url = NOWHERE

    def __init__(self, _folder: Path) -> None:
        self._now_ms = 1_700_000_000_000
        self.world = FakeWorld(now=self.now, script_of=self._script)
        self.executor: Executor = FakeExecutor(self.world)

    def _script(self, launch: Launch) -> Script:
        behaviour = eval(launch.workload.spec.roles[0].command[0])  # noqa: S307 - written by command()
        return Script(
            start_ms=20,
            start_fails="no such command: /nowhere" if behaviour.no_such_command else None,
            run_ms=None if behaviour.exit_code is None else 30,
            exit_code=behaviour.exit_code or 0,
            stop_ms=None if behaviour.ignores_term else 10,
            stop_exit_code=0 if behaviour.leaves_content else 143,
            usr1_ms=10 if behaviour.leaves_content else None,
            says_told=behaviour.says_told,
            posts_finished=behaviour.says_finished,
            lines=behaviour.lines,
        )

    def restart(self) -> None:
        self.executor.close()
        self.executor = FakeExecutor(self.world)

    def command(self, behaviour: Behaviour) -> tuple[str, ...]:
        return (repr(behaviour),)

    def now(self) -> Millis:
        return Millis(self._now_ms)

    def wait(self, ms: int) -> None:
        self._now_ms += ms

    def starts(self, launch: Launch) -> int:
        return self.world.starts.count(launch.attempt.attempt_id)

    def clear(self) -> None:
        self.executor.close()


class LocalRig:
    node = "here"
    api_url = NOWHERE

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "home").mkdir()
        self.executor: Executor = self._boot()

    def _boot(self) -> LocalExecutor:
        return LocalExecutor(
            LocalSettings(
                state_dir=self._folder / "state",
                home_of=lambda _user: self._folder / "home",
                nodes=tuple,
                environ={"PATH": os.environ["PATH"]},
            )
        )

    def restart(self) -> None:
        self.executor.close()
        self.executor = self._boot()

    def command(self, behaviour: Behaviour) -> tuple[str, ...]:
        if behaviour.no_such_command:
            return ("/nowhere/no-such-command",)
        script = (
            f"import os, signal, sys, time; {before_it_runs(behaviour)}"
            "d = os.environ['GPUCOMMONS_RANK'] + ' ' + os.environ['GPUCOMMONS_ATTEMPT_DIR'];"
            f"f = os.open({str(self._folder / 'starts')!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT);"
            "os.write(f, (d + chr(10)).encode());"
            f"[print(line, flush=True) for line in {behaviour.lines!r}];"
        )
        last = (
            "time.sleep(600)" if behaviour.exit_code is None else f"sys.exit({behaviour.exit_code})"
        )
        return (sys.executable, "-c", script + last)

    def now(self) -> Millis:
        return Millis(time.time_ns() // 1_000_000)

    def wait(self, ms: int) -> None:
        time.sleep(ms / 1000)  # the one place where real processes need real time

    def starts(self, launch: Launch) -> int:
        file = self._folder / "starts"
        found = file.read_text().splitlines() if file.exists() else []
        return sum(s.startswith("0 ") and launch.attempt.attempt_id in s for s in found)

    def clear(self) -> None:
        self.restart()
        # Nobody knows anything: whatever still runs is ended.
        self.executor.adopt(())
        executor, end_s = self.executor, time.monotonic() + PATIENCE_S
        assert isinstance(executor, LocalExecutor)
        attempts = [AttemptId(path.name) for path in (self._folder / "state/attempts").iterdir()]
        while any(executor.folder(attempt_id).supervised() for attempt_id in attempts):
            assert time.monotonic() < end_s, "an attempt that nobody knows still runs"
            time.sleep(0.02)
        executor.close()
