"""What the service asks about environments, wherever jobs run; on a cluster they are images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from gpucommons.scheduler.environments.reading import Environment


@dataclass(frozen=True, kw_only=True, slots=True)
class Joining:
    """What a launcher must find in the environment of the workers that it joins."""

    launcher: str
    module: str = ""
    program: str = ""

    def text(self) -> str:
        """What it must find."""
        return self.module or self.program


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What a job needs of its environment."""

    #: As asked: a name, a path, an image; "" = the default.
    environment: str = ""
    #: First words of its commands that are looked up by name.
    programs: tuple[str, ...] = ()
    runs_notebook: bool = False
    #: Its script imports what lets it be stopped and resumed.
    uses_training: bool = False
    #: What joins its workers; None where nothing does, or where it may be found elsewhere.
    joining: Joining | None = None
    #: Files that are linked from the home.
    links: bool = False
    #: The notebook server that it is submitted from, "" = the default one; None = from elsewhere.
    server: str | None = None
    #: It was settled before, for a job that is run again.
    is_stored: bool = False


class Environments(Protocol):
    """The environments of the place where jobs run."""

    @property
    def kind(self) -> Literal["folder", "image"]:
        """Folders on one machine, images on a cluster."""
        ...

    def listed(self, user: str) -> Sequence[Environment]:
        """Those that a user may choose from."""
        ...

    def default(self, user: str, server: str | None) -> str:
        """What a job gets that names none, where that depends on the notebook; "" elsewhere."""
        ...

    def settle(self, user: str, wanted: Wanted) -> str:
        """The environment that really runs, as it is stored.

        Raises
        ------
        Misconfigured
            When there is none, or it lacks what the job needs.
        """
        ...

    def same_as(self, settled: str) -> tuple[str, ...]:
        """All words under which a rule may name what was settled, its own first."""
        ...

    def remarks(self, wanted: Wanted, settled: str) -> list[str]:
        """What who submits should know of the choice that was made for them."""
        ...


class OnlyAsked:
    """What holds where no notebook makes a choice, and every environment has one name."""

    def default(self, user: str, server: str | None) -> str:
        """See the protocol."""
        return ""

    def same_as(self, settled: str) -> tuple[str, ...]:
        """See the protocol."""
        return (settled,)

    def remarks(self, wanted: Wanted, settled: str) -> list[str]:
        """See the protocol."""
        return []


class AsAsked(OnlyAsked):
    """Environments of which nothing is known: what is asked is what is stored."""

    kind: Literal["folder", "image"] = "image"

    def listed(self, user: str) -> Sequence[Environment]:
        """See the protocol."""
        return ()

    def settle(self, user: str, wanted: Wanted) -> str:
        """See the protocol."""
        return wanted.environment
