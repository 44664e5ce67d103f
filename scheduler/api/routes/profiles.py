"""Routes of profiles."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from gpucommons.scheduler import models
from gpucommons.scheduler.api.caller import AnyCaller
from gpucommons.scheduler.api.routes.routers import a_router
from gpucommons.scheduler.service.jobs import profiles

router = a_router("profiles")

Team = Annotated[models.Name, Path()]
ProfileName = Annotated[models.Name, Path()]


@router.get("/profiles", name="profiles")
async def list_profiles(caller: AnyCaller) -> models.ProfileList:
    """The profiles of the caller's teams; of all for admins."""
    return await caller.run(profiles.profiles)


@router.get("/profiles/{team}/{name}", name="profile")
async def one_profile(team: Team, name: ProfileName, caller: AnyCaller) -> models.ProfileView:
    """One profile."""
    return await caller.run(profiles.profile, team, name)


@router.put("/profiles/{team}/{name}")
async def put_profile(
    team: Team, name: ProfileName, request: models.ProfileRequest, caller: AnyCaller
) -> models.ProfileView:
    """Publish what a team starts jobs with, or publish it anew (its leads and admins)."""
    return await caller.run(profiles.put_profile, team, name, request)


@router.delete("/profiles/{team}/{name}")
async def drop_profile(team: Team, name: ProfileName, caller: AnyCaller) -> models.ProfileView:
    """Remove one; jobs that were started with it stay (leads and admins)."""
    return await caller.run(profiles.drop_profile, team, name)
