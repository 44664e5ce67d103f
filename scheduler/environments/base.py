"""What the service asks about environments, wherever jobs run; on a cluster they are images."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from gpucommons.scheduler.environments.reading import Environment
from gpucommons.scheduler.errors import Misconfigured

#: An image whose content cannot change: named by its digest.
PINNED = re.compile(r"^[^@]+@sha256:[0-9a-f]{64}$")


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
    #: Files that are linked from the home.
    links: bool = False


class Environments(Protocol):
    """The environments of the place where jobs run."""

    @property
    def kind(self) -> Literal["folder", "image"]:
        """Folders on one machine, images on a cluster."""
        ...

    def listed(self, user: str) -> Sequence[Environment]:
        """Those that a user may choose from."""
        ...

    def settle(self, user: str, wanted: Wanted) -> str:
        """The environment that really runs, as it is stored.

        Raises
        ------
        Misconfigured
            When there is none, or it lacks what the job needs.
        """
        ...


class AsAsked:
    """Environments of which nothing is known: what is asked is what is stored."""

    kind: Literal["folder", "image"] = "image"

    def listed(self, user: str) -> Sequence[Environment]:
        """See the protocol."""
        return ()

    def settle(self, user: str, wanted: Wanted) -> str:
        """See the protocol."""
        return wanted.environment


@dataclass(frozen=True, kw_only=True, slots=True)
class Images:
    """Images of a cluster: those that the admin named and, where allowed, any by its digest."""

    names: Sequence[str]
    any_image: bool = False
    #: Jobs see their owner's home folder.
    sees_home: bool = False
    kind: Literal["folder", "image"] = "image"

    def listed(self, user: str) -> Sequence[Environment]:
        """See the protocol."""
        return [Environment(path=name, name=name, python="") for name in self.names if name]

    def settle(self, user: str, wanted: Wanted) -> str:
        """See the protocol."""
        if wanted.links and not self.sees_home:
            raise Misconfigured(
                "links: jobs do not see home folders here, so nothing can be linked from there."
                " Leave links out, or put the files where jobs can read them."
            )
        asked = wanted.environment
        if asked in self.names or (self.any_image and asked):
            return asked
        known = ", ".join(sorted(name for name in self.names if name)) or "none"
        said = f"There is no environment {asked!r} here" if asked else "There is no default"
        message = f"environment: {said}: name one of: {known}."
        raise Misconfigured(message)
