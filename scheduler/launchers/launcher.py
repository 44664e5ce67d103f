"""What a launcher is: it makes a command and variables of each worker, or says why it cannot."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gpucommons.scheduler.launchers.worker_addresses import Gang

#: The module that runs a notebook: one process, whatever it has.
NOTEBOOK_RUNNER = "gpucommons.scheduler.training.notebook"
PYTHON = re.compile(r"python(3(\.\d+)?)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """How one worker is started."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A job before it is placed."""

    #: Count of each role.
    roles: Mapping[str, int]
    #: Of the first role.
    command: tuple[str, ...]
    #: Variables that its spec sets.
    variables: Collection[str] = ()

    @property
    def workers(self) -> int:
        """All of them."""
        return sum(self.roles.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher:
    """One way to join workers."""

    name: str
    starts: Callable[[Gang], tuple[Start, ...]]
    #: Why a job cannot be started so, as a sentence; None where it can.
    refusal: Callable[[Asked], str | None] = lambda _asked: None
    #: What it sets, so that nobody else may.
    variables: tuple[str, ...] = ()
    #: So much each worker is told of each other one.
    told_bytes: int = 0
    #: The module that a job's environment must have.
    module: str = ""
    #: The program that must be found there, or on the machine's own path.
    program: str = ""


def program_of(command: Sequence[str]) -> str:
    """Its first word, without the folder that it lies in."""
    return command[0].rpartition("/")[2] if command else ""


def behind_env(command: Sequence[str]) -> int:
    """How many first words are ``env NAME=VALUE …``, which starts what stands behind them."""
    if program_of(command) != "env":
        return 0
    place = 1
    while place < len(command) and _VARIABLE.fullmatch(command[place]):
        place += 1
    return place


def python_of(command: Sequence[str]) -> tuple[str, ...]:
    """What starts Python in a command: ``python``, ``env A=1 /opt/bin/python3``; () where it is no Python."""
    place = behind_env(command)
    if PYTHON.fullmatch(program_of(command[place:])) is None:
        return ()
    return tuple(command[: place + 1])


def script_words(command: Sequence[str]) -> tuple[str, ...] | None:
    """What Python is given: ``train.py --x`` or ``-m package``; None where a command is no Python, or has
    options of Python that a launcher does not know (``-X``, ``-c``): it is started as it is.
    """
    python = python_of(command)
    if not python:
        return None
    words = list(command[len(python) :])
    while words and words[0] == "-u":
        words.pop(0)
    if not words or (words[0].startswith("-") and words[0] != "-m"):
        return None
    return tuple(words)


def is_notebook(words: Sequence[str]) -> bool:
    """Whether Python is given a notebook to run."""
    return tuple(words[:2]) == ("-m", NOTEBOOK_RUNNER)


def option(words: Sequence[str], *names: str) -> str | None:
    """The value of an option among words, written as two words or with ``=``."""
    plain = {name.replace("-", "_") for name in names}
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.replace("-", "_") in plain:
            return value if equals else (words[place + 1] if place + 1 < len(words) else "")
    return None
