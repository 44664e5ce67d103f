"""Slurm's own commands: submit, look, cancel. Words only, no shell; text that all releases print alike.

Whatever cannot be told from no answer counts as none: it is asked again, and nothing is concluded.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpucommons.scheduler.errors import Misconfigured, Unavailable

#: Of a job that Slurm is done with. All else (pending, running, completing, suspended, …) is alive.
OVER = frozenset(
    [
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    ]
)
WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
#: Slurm understood, and says that it will not: its sentences for what stays wrong.
_REFUSED = re.compile(
    r"invalid|not available|not permitted|unknown|unable to allocate|violates|disabled|denied"
    r"|more processors|too (many|large)|exceed|malformed|unrecognized|illegal",
    re.IGNORECASE,
)
#: It may say otherwise later: nobody was there, or its account has as many jobs as it may.
_LATER = re.compile(
    r"contact|connect|timed out|timeout|temporarily|try again|zero bytes|munge|MaxSubmit",
    re.IGNORECASE,
)
#: ``gpu:4``, or with a type, which may be digits alone: ``gpu:3090:4``.
_GPUS = re.compile(r"\bgpu(?::([^\s:,()]+))?:(\d+)\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class SlurmJob:
    """One job as Slurm has it now."""

    number: str
    name: str
    state: str
    #: Why it waits, or ended, as Slurm says it.
    reason: str

    @property
    def is_over(self) -> bool:
        """It holds nothing any more."""
        return self.state in OVER


@dataclass(frozen=True, kw_only=True, slots=True)
class SlurmNode:
    """One node as Slurm has it now; GPUs by their type, "" where it names none."""

    partitions: frozenset[str]
    takes_work: bool
    gpus: dict[str, int]
    used: dict[str, int]


class Slurm:
    """Each call is one command, and ends within ``patience_s``."""

    def __init__(
        self, *, patience_s: float, folder: Path | None = None, conf: Path | None = None
    ) -> None:
        self._patience_s = patience_s
        self._folder = folder
        self._env = {**os.environ, **({} if conf is None else {"SLURM_CONF": str(conf)})}

    def submit(self, options: Sequence[str], script: str) -> str:
        """Submit a script; the job's number.

        Raises
        ------
        Misconfigured
            When Slurm will never take it.
        Unavailable
            When it does not answer, or says something else: look whether it has the job.
        """
        return self._run("sbatch", "--parsable", *options, text=script).partition(";")[0].strip()

    def jobs(self) -> tuple[SlurmJob, ...]:
        """All jobs of this account, those that ended a short while ago too.

        Raises
        ------
        Unavailable
            When Slurm does not answer.
        """
        told = self._run(
            "squeue", "--noheader", "--states=all", f"--user={os.getuid()}",
            "--format=%A|%j|%T|%r",
        )  # fmt: skip
        lines = (line.split("|", 3) for line in told.splitlines())
        return tuple(
            SlurmJob(number=one[0], name=one[1], state=one[2], reason=one[3])
            for one in lines
            if len(one) == 4  # noqa: PLR2004 - as many as the format has
        )

    def nodes(self) -> tuple[SlurmNode, ...]:
        """All nodes.

        Raises
        ------
        Unavailable
            When Slurm does not answer.
        """
        told = self._run("scontrol", "--oneliner", "--details", "show", "nodes")
        return tuple(_node(line) for line in told.splitlines() if line.startswith("NodeName="))

    def cancel(self, number: str, *, kill: bool = False) -> None:
        """End a job, whatever its state; ``kill`` leaves it no time. One that is over already is fine.

        Raises
        ------
        Unavailable
            When Slurm does not answer.
        """
        self._run("scancel", *(("--signal=KILL", "--full") if kill else ()), number)

    def _run(self, *words: str, text: str = "") -> str:
        try:
            done = subprocess.run(
                [words[0] if self._folder is None else self._folder / words[0], *words[1:]],
                env=self._env, input=text, capture_output=True, text=True, errors="replace",
                timeout=self._patience_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            message = f"Slurm did not answer {words[0]} within {self._patience_s:g} s"
            raise Unavailable(message) from error
        except OSError as error:
            message = f"Slurm's command {words[0]} cannot be run here: {error.strerror}"
            raise Unavailable(message) from error
        if not done.returncode:
            return done.stdout
        said = " ".join(done.stderr.split())[-500:] or f"exit status {done.returncode}"
        if words[0] == "sbatch" and _REFUSED.search(said) and not _LATER.search(said):
            message = f"Slurm does not take this job: {said}"
            raise Misconfigured(message)
        message = f"Slurm does not answer: {said}"
        raise Unavailable(message)


def _node(line: str) -> SlurmNode:
    def value(key: str) -> str:
        found = re.search(rf"(?:^| ){key}=(\S*)", line)
        return found.group(1) if found else ""

    # IDLE, MIXED, ALLOCATED, …; with what an admin or a failure adds: +DRAIN, +NOT_RESPONDING.
    first, *more = value("State").rstrip("*").split("+")
    takes = first in {"IDLE", "MIXED", "ALLOCATED", "COMPLETING"} and not (
        {"DRAIN", "NOT_RESPONDING", "INVALID_REG", "MAINTENANCE", "FAIL", "POWERING_DOWN"}
        & set(more)
    )
    return SlurmNode(
        partitions=frozenset(value("Partitions").split(",")),
        takes_work=takes,
        gpus=_gpus(value("Gres")),
        used=_gpus(value("GresUsed")),
    )


def _gpus(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind, count in _GPUS.findall(text):
        found[kind] = found.get(kind, 0) + int(count)
    return found
