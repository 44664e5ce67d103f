"""The two functions that the hub calls for every start: show the form, check what came back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jupyterhub.roles import get_roles_for, roles_to_expanded_scopes

from gpucommons.scheduler.errors import SchedulerError
from gpucommons.spawner.form.form import FormContext, build_form, render_form
from gpucommons.spawner.hub_config import ADMIN

if TYPE_CHECKING:
    from gpucommons.spawner.lease import LeaseMixin


async def options_form(spawner: LeaseMixin) -> str:
    """What the hub's spawn page shows; without a scheduler it offers CPU and says why."""
    offers, problem = None, None
    try:
        if spawner.scheduler_url:
            offers = await spawner.offers()
    except SchedulerError as error:
        spawner.log.warning("No offers for %s: %s", spawner.user.name, error)
        problem = (
            "The GPU scheduler does not answer, so only CPU can be started. Load this page again in"
            " a moment."
        )
    context = FormContext(
        server_name=spawner.name,
        environments=list(spawner.environments),
        last=spawner.orm_spawner.user_options if spawner.orm_spawner else None,
        cpu_text=spawner.cpu_text,
        ticket_url=spawner.ticket_url,
        shared_account=spawner.shared_account,
        keeps_files=spawner.keeps_files(),
        gives_quota=_gives_quota(spawner.user),
        problem=problem,
    )
    return render_form(build_form(offers, context, now_ms=time.time_ns() // 1_000_000))


def _gives_quota(user: Any) -> bool:
    """Whether this user is a GPU admin, as the scheduler sees it: by scope. A hub's admin need not be."""
    orm_user = getattr(user, "orm_user", None)
    if orm_user is None:
        return False
    return ADMIN in roles_to_expanded_scopes(get_roles_for(orm_user), owner=orm_user)


async def apply_user_options(spawner: LeaseMixin, user_options: Mapping[str, object]) -> None:
    """Refuse bad options before anything is started; the hub hands both doors' options here."""
    await spawner.read_chosen()
    # Not `load_user_options`: a start loads them itself, and KubeSpawner's profiles only once.
    spawner.notebook_options()
