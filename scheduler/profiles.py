"""A profile: a named form of a team, that a lead publishes and others start their jobs with."""

from __future__ import annotations

from dataclasses import dataclass

from gpucommons.scheduler.errors import PolicyRefused

#: Of one team: more are not found in a list.
MAX_PROFILES = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """What is stored of one. Key: team and name."""

    team: str
    name: str
    #: What was published, as JSON of the API.
    document: str
    published_by: str
    published_ms: int


def too_many(team: str) -> PolicyRefused:
    """The refusal of one more."""
    message = f"{team} has {MAX_PROFILES} profiles, and no more are kept: remove one."
    return PolicyRefused(message)
