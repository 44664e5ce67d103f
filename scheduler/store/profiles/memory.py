"""Profiles without a disk: for tests, simulation and replays."""

from __future__ import annotations

import threading
from collections.abc import Collection

from gpucommons.scheduler.profiles import MAX_PROFILES, Profile, too_many


class MemoryProfiles:
    """See :class:`.base.ProfileStore`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], Profile] = {}

    def put(self, profile: Profile) -> None:
        """Add or replace."""
        key = (profile.team, profile.name)
        with self._lock:
            others = sum(team == key[0] and name != key[1] for team, name in self._kept)
            if others >= MAX_PROFILES:
                raise too_many(profile.team)
            self._kept[key] = profile

    def all(self, teams: Collection[str] | None = None) -> tuple[Profile, ...]:
        """By team and name."""
        with self._lock:
            found = sorted(self._kept.items())
        return tuple(one for (team, _), one in found if teams is None or team in teams)

    def drop(self, team: str, name: str) -> None:
        """Forget one."""
        with self._lock:
            self._kept.pop((team, name), None)
