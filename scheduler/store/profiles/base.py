"""The contract of stores with profiles, with a disk and without."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from gpucommons.scheduler.profiles import Profile


class ProfileStore(Protocol):
    """Durable memory of profiles (any replica). All methods may be called from any thread."""

    def put(self, profile: Profile) -> None:
        """Add one, or replace what its team has under that name.

        Raises
        ------
        PolicyRefused
            Where its team has as many as are kept, however many requests come at once.
        """
        ...

    def all(self, teams: Collection[str] | None = None) -> tuple[Profile, ...]:
        """Those of these teams, or of all, by team and name."""
        ...

    def drop(self, team: str, name: str) -> None:
        """Forget one, if it is there."""
        ...
