"""Environments of one machine, looked at under the account of whose they are."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from gpucommons.scheduler.environments.base import OnlyAsked, Wanted
from gpucommons.scheduler.environments.finding import grounds_of
from gpucommons.scheduler.environments.looking import answer
from gpucommons.scheduler.environments.reading import Environment
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.executors.local.attempt.errand_answers import Answer
from gpucommons.scheduler.executors.local.attempt.plan import Account, as_user

#: A home on a network that does not answer must not hold up the service.
TIMEOUT_S = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineEnvironments(OnlyAsked):
    """See :class:`gpucommons.scheduler.environments.base.Environments`."""

    home_of: Callable[[str], Path]
    #: The user's account; None = everybody's jobs run as the service itself.
    account_of: Callable[[str], Account] | None
    #: Variables of the service that its helpers inherit.
    environ: Mapping[str, str]
    kind: Literal["folder", "image"] = "folder"

    def listed(self, user: str) -> Sequence[Environment]:
        """See the protocol."""
        found = self._ask(user, {"what": "list"})
        try:
            return [Environment(**one) for one in found["environments"]]
        except (KeyError, TypeError):
            return []

    def settle(self, user: str, wanted: Wanted) -> str:
        """See the protocol."""
        joining = wanted.joining
        if not wanted.environment and not wanted.programs and joining is None:
            return ""
        found = self._ask(
            user,
            {
                "what": "settle",
                "asked": wanted.environment,
                "programs": list(wanted.programs),
                "search": self.environ.get("PATH", ""),
                "runs_notebook": wanted.runs_notebook,
                "uses_training": wanted.uses_training,
                "joining": None if joining is None else asdict(joining),
            },
        )
        if "refused" in found:
            raise Misconfigured(str(found["refused"]))
        if not isinstance(path := found.get("path"), str):
            raise Misconfigured(_unanswered(user))
        return path

    def _ask(self, user: str, question: dict[str, Any]) -> dict[str, Any]:
        home = self.home_of(user)
        if self.account_of is None:
            # All share the service's account: what it may open, each of them may.
            return answer(question, grounds_of(home))
        try:
            found = self._heard(user, {**question, "home": str(home)})
        except OSError:
            found = {}
        if found:
            return found
        raise Misconfigured(_unanswered(user))

    def _heard(self, user: str, question: dict[str, Any]) -> dict[str, Any]:
        """What a process of the user's answers; empty where it is no answer."""
        with tempfile.TemporaryFile() as asked:
            asked.write(json.dumps(question).encode())
            asked.seek(0)
            looking = subprocess.Popen(
                [sys.executable, "-m", "gpucommons.scheduler.environments.looking"],
                stdin=asked,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=dict(self.environ),
                **as_user(None if self.account_of is None else self.account_of(user)),
            )
        with Answer(looking) as hearing:
            done = hearing.hear(TIMEOUT_S)
        return {} if done is None or done.problem is not None else done.document()


def _unanswered(user: str) -> str:
    return (
        f"The environments of {user} could not be looked at within {TIMEOUT_S:.0f} s: is the home folder"
        " there? Try again, or leave the environment out."
    )
