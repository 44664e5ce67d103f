"""Every call about profiles as a pure value."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.client.call import Call, path_of


def profiles() -> Call[models.ProfileList]:
    """Those of the caller's teams."""
    return Call(method="GET", path=path_of("profiles"), answer=models.ProfileList)


def profile(team: str, name: str) -> Call[models.ProfileView]:
    """One of them."""
    return Call(method="GET", path=path_of("profiles", team, name), answer=models.ProfileView)


def put_profile(team: str, name: str, request: models.ProfileRequest) -> Call[models.ProfileView]:
    """Publish one, or publish it anew."""
    path = path_of("profiles", team, name)
    return Call(method="PUT", path=path, answer=models.ProfileView, body=request)


def drop_profile(team: str, name: str) -> Call[models.ProfileView]:
    """Remove one."""
    return Call(method="DELETE", path=path_of("profiles", team, name), answer=models.ProfileView)
