"""One script through the product: submitted, preempted by another team's claim, brought to its end."""

from __future__ import annotations

import getpass
import json
import re
import shutil
import subprocess
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.real_scripts.catalogue import Script
from benchmarks.real_scripts.environment import variables
from benchmarks.tour.machine import Machine
from benchmarks.tour.timeline import answer_of
from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls

CLUSTER = Path(__file__).with_name("cluster.yaml")
ENDED = ("succeeded", "failed", "cancelled")
#: GPUs of the cluster; the job takes all of them, so that every claim of the other team stops it.
_GPUS = 4
_MEMORY_MIB = 2500
# A cluster of five JVMs takes its time beside other work.
_START_S, _END_S = 300, 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """What became of one script."""

    script: str
    #: It ended well by itself, after one preemption.
    runs: bool
    #: Its second attempt did not begin with the first step again.
    resumes: bool
    #: Steps that its log shows twice, beyond those since its own last save.
    steps_repeated: int
    curve_points: int
    #: None where it leaves no file behind.
    files_back: bool | None
    #: How it ended, in the product's words; what stood in the way of playing it.
    ended: str
    attempts: int
    #: What was said of its first stop, with why it was not kept; empty where it was not stopped.
    stopped: str = ""
    #: The number that it prints at its end; empty where it prints none.
    final: str = ""
    #: How its workers were joined.
    launcher: str = ""
    #: The same as it was said at submit, with why.
    launcher_text: str = ""

    def line(self) -> dict[str, object]:
        """As one JSON object."""
        return asdict(self)


class Log:
    """What the log of all attempts has gained since the last look."""

    def __init__(self, scheduler: SchedulerClient, job: str) -> None:
        self._scheduler, self._job = scheduler, job
        self._offsets = Counter[int]()

    def new_lines(self) -> Iterator[str]:
        """By attempt."""
        attempts = answer_of(self._scheduler, calls.job(self._job)).attempts
        for attempt in range(1, len(attempts) + 1):
            while True:
                offset = self._offsets[attempt]
                asked = calls.log(self._job, attempt=attempt, offset=offset)
                part = answer_of(self._scheduler, asked)
                for line in part.lines:
                    yield from line.split("\r")
                if part.next_offset == offset:
                    break
                self._offsets[attempt] = part.next_offset


def _steps_in(script: Script, lines: Iterable[str]) -> list[float]:
    found = (re.search(script.step, line) for line in lines)
    return [float(match[1]) for match in found if match]


class Stage:
    """A machine with simulated GPUs, two teams, and a folder for the scripts."""

    def __init__(self, machine: Machine, scheduler: SchedulerClient, environment: Path) -> None:
        self._machine, self._scheduler, self._environment = machine, scheduler, environment

    def play(self, script: Script) -> Played:
        """Play one script; what fails is told, not raised."""
        place = self._lay_out(script)
        said = self._submit(script, place)
        if said.returncode != 0:
            return _refused(script, said.stderr)
        made = json.loads(said.stdout)
        job = str(made["id"])
        if self._wait_for_step(script, job):
            self._claim()
        view = self._wait_for_end(job)
        steps = self._steps(script, job)
        return Played(
            script=script.name,
            runs=view.state == "succeeded",
            resumes=len(view.attempts) > 1 and bool(steps) and steps.count(steps[0]) == 1,
            steps_repeated=_repeated(steps, script.saves_every),
            curve_points=self._curve_points(job),
            files_back=(
                (place / "results" / view.name / script.makes).exists() if script.makes else None
            ),
            ended=view.attempts[-1].ended_text or view.state if view.attempts else view.state,
            attempts=len(view.attempts),
            stopped=(view.attempts[0].ended_text or "") if len(view.attempts) > 1 else "",
            final=self._final(script, job),
            launcher="" if view.request is None else view.request.launcher,
            launcher_text=made["launcher_text"],
        )

    def _lay_out(self, script: Script) -> Path:
        place = self._machine.home() / script.name
        for file in script.files:
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(script.folder / file, place / file)
        return place

    def _submit(self, script: Script, place: Path) -> subprocess.CompletedProcess[str]:
        common = ("submit", "--output", "json", "--env", str(self._environment))
        if script.job_file:
            with (place / script.job_file).open("a") as file:
                file.write("team: research\n")
            return self._machine.cli(*common, "-f", script.job_file, cwd=place)
        what = ["--", *script.command] if script.command else [script.files[0]]
        return self._machine.cli(
            *(*common, "--team", "research"),
            *("--gpus", str(_GPUS // script.workers), "--workers", str(script.workers)),
            *("--memory-mib", str(_MEMORY_MIB // script.workers), "--name", script.name),
            *(
                word
                for one in variables(self._environment).items()
                for word in ("--env", "=".join(one))
            ),
            *script.options,
            *what,
            cwd=place,
        )

    def _claim(self) -> None:
        """The other team wants what is its own, for a second."""
        role = models.RoleRequest(milli_gpu=_GPUS * 1000, command=["sleep", "1"])
        request = models.JobRequest(name="claim", team="claim", roles=[role])
        answer_of(self._scheduler, calls.submit(request, key=str(uuid.uuid4())))

    def _steps(self, script: Script, job: str) -> list[float]:
        return _steps_in(script, Log(self._scheduler, job).new_lines())

    def _final(self, script: Script, job: str) -> str:
        lines = Log(self._scheduler, job).new_lines() if script.final else ()
        found = [re.search(script.final, line) for line in lines]
        return next((match[1] for match in found if match), "")

    def _wait_for_step(self, script: Script, job: str) -> bool:
        """Whether it has come so far; not where it ends before."""
        deadline, log = time.monotonic() + _START_S, Log(self._scheduler, job)
        while time.monotonic() < deadline:
            if script.stopped_after <= max(_steps_in(script, log.new_lines()), default=-1):
                return True
            if answer_of(self._scheduler, calls.job(job)).state in ENDED:
                return False
            time.sleep(0.3)
        return False

    def _wait_for_end(self, job: str) -> models.JobView:
        deadline = time.monotonic() + _END_S
        while (view := answer_of(self._scheduler, calls.job(job))).state not in ENDED:
            if time.monotonic() > deadline:
                return answer_of(self._scheduler, calls.cancel(job))
            time.sleep(0.5)
        return view

    def _curve_points(self, job: str) -> int:
        return len(answer_of(self._scheduler, calls.curve(job)).points)


def _refused(script: Script, why: str) -> Played:
    return Played(
        script=script.name,
        runs=False,
        resumes=False,
        steps_repeated=0,
        curve_points=0,
        files_back=False,
        ended=f"refused: {why.strip()}",
        attempts=0,
    )


def _repeated(steps: Sequence[float], saves_every: int) -> int:
    twice = sum(times - 1 for times in Counter(steps).values())
    return max(0, twice - saves_every)


def cluster(config: Path, folder: Path) -> Path:
    """A configuration, with the caller as the only user of its teams."""
    place = folder / config.name
    place.write_text(config.read_text().replace("USER", getpass.getuser()))
    return place


@contextmanager
def machine_without_hub(config: Path) -> Iterator[tuple[Machine, SchedulerClient]]:
    """A machine for as long as the block lasts, for who uses the command line and the API alone."""
    with (
        tempfile.TemporaryDirectory(prefix="gcscripts") as folder,
        Machine(
            cluster(config, Path(folder)), idle_after_s=3600, warn_after_s=3000, hub=False
        ) as machine,
        SchedulerClient(f"unix:{machine.state / 'api.sock'}") as scheduler,
    ):
        yield machine, scheduler


@contextmanager
def stage(environment: Path) -> Iterator[Stage]:
    """Where scripts are submitted by hand."""
    with machine_without_hub(CLUSTER) as (machine, scheduler):
        yield Stage(machine, scheduler, environment)
