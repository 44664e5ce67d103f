"""What a user is asked before a start, and what is made of the answer, whatever runs the server.

The hub asks the spawner three times: for the form, for what a form or a link says, and whether that can
be started.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any

from jupyterhub.roles import get_roles_for, roles_to_expanded_scopes
from traitlets import Bool, Dict, HasTraits, Set, Unicode, default

from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.languages.chosen import language_of
from gpucommons.scheduler.languages.texts import ENGLISH, gettext, spoken
from gpucommons.scheduler.models import LeaseView, OfferList
from gpucommons.scheduler.models.hub_scopes import ADMIN
from gpucommons.spawner.form.answers import LINK_PREFIX, NotebookOptions, parse_options
from gpucommons.spawner.form.form import FormContext, build_form, render_form
from gpucommons.spawner.form.refusal import bad_options_refused, led_to, why_no_offers
from gpucommons.spawner.form.start_again import AGAIN, line_url, offered, options_of_last


class StartOptions(HasTraits):
    """The part of a spawner that asks its user; mixed in before the spawner class."""

    #: As every spawner has them.
    name: str
    user: Any
    orm_spawner: Any
    user_options: dict[str, object]
    log: logging.Logger
    #: Of the page that is answered now; the hub forgets it at the end of a start.
    handler: Any
    #: In which the form was last shown: a start that was refused shows it again.
    language: str = ENGLISH

    scheduler_url = Unicode(
        help="Address of the scheduler's API, as the hub reaches it. Empty: only CPU notebooks."
    ).tag(config=True)
    why_no_scheduler = Unicode(
        help="What users read on the start page where `scheduler_url` is empty, though it should not be."
    ).tag(config=True)
    ticket_url = Unicode(
        help="Page where users wait in line for a GPU; default: `ticket` of the hub's service."
    ).tag(config=True)
    shared_account = Bool(
        False, help="Users share one operating-system account; every screen says so."
    ).tag(config=True)
    environments = Dict(
        key_trait=Unicode(),
        value_trait=Unicode(),
        help="Names of the environments on offer, the default first, and where each is.",
    ).tag(config=True)
    cpu_text = Unicode(
        help="What a notebook without a GPU gets, for the options form; default: as it is, in the"
        " reader's language."
    ).tag(config=True)
    other_options = Set(
        Unicode(), help="Keys of the user's options that something else of this hub handles."
    ).tag(config=True)

    @default("options_form")
    def _default_options_form(self) -> object:
        return options_form

    @default("options_from_form")
    def _default_options_from_form(self) -> object:
        return partial(read_start, self)

    @default("apply_user_options")
    def _default_apply_user_options(self) -> object:
        return apply_user_options

    def read_form(self, form_data: Mapping[str, object]) -> dict[str, object]:
        """Read what a form or a link says."""
        kept = {key: form_data[key] for key in self.other_options if key in form_data}
        return {**kept, **self.notebook_options(form_data).as_user_options()}

    def notebook_options(self, raw: Mapping[str, object] | None = None) -> NotebookOptions:
        """The options of this start, or a refusal with status 400."""
        given = self.user_options if raw is None else raw
        with bad_options_refused():
            return parse_options(
                given, environments=list(self.environments), others=self.other_options
            )

    def environment_name(self) -> str:
        """What the form calls the environment of this start; without a choice that of the hub's Python."""
        own = (name for name, place in self.environments.items() if place == sys.executable)
        return self.notebook_options().environment or next(own, "")

    async def read_chosen(self) -> None:
        """Read options that a form sent when its user got into line, as forms are read here.

        Only KubeSpawner's profiles are kept in another way than they are sent, and checked there.
        """

    def own_cpu_text(self) -> str:
        """What a notebook without a GPU gets, in the reader's language; empty where it is not known."""
        return ""

    def keeps_files(self) -> bool:
        """Whether it is known that the user's files outlive the server; a home on a disk does."""
        return True

    async def may_keep_kernels(self) -> bool | None:
        """Whether servers like this one can keep kernels whole; None = not known. On a cluster it is the
        node that can, and none is chosen yet.
        """
        return None

    async def offers(self) -> OfferList:
        """What the user of this server may start right now."""
        raise NotImplementedError

    async def take_ticket(self, chosen: NotebookOptions) -> LeaseView:
        """Wait in line; the scheduler starts this server on its turn."""
        raise NotImplementedError


async def options_form(spawner: StartOptions) -> str:
    """What the hub's spawn page shows, in its reader's language; without a scheduler it offers CPU and
    says why.
    """
    if spawner.handler is not None:
        spawner.language = language_of(spawner.handler)
    with spoken(spawner.language):
        return await _form(spawner)


async def _form(spawner: StartOptions) -> str:
    offers, problem = None, spawner.why_no_scheduler or None
    try:
        if spawner.scheduler_url:
            offers = await spawner.offers()
    except SchedulerError as error:
        spawner.log.warning("No offers for %s: %s", spawner.user.name, error)
        problem = why_no_offers(error)
    context = FormContext(
        server_name=spawner.name,
        environments=list(spawner.environments),
        last=spawner.orm_spawner.user_options if spawner.orm_spawner else None,
        cpu_text=spawner.cpu_text or spawner.own_cpu_text(),
        ticket_url=spawner.ticket_url,
        shared_account=spawner.shared_account,
        keeps_files=spawner.keeps_files(),
        may_keep_kernels=await spawner.may_keep_kernels(),
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


async def apply_user_options(spawner: StartOptions, user_options: Mapping[str, object]) -> None:
    """Refuse bad options before anything is started; the hub hands options of form and API here."""
    await spawner.read_chosen()
    # Not `load_user_options`: a start loads them itself, and KubeSpawner's profiles only once.
    spawner.notebook_options()


def read_start(
    spawner: StartOptions, form_data: Mapping[str, object]
) -> dict[str, object] | Awaitable[dict[str, object]]:
    """Read a form or a link; ``again`` stands for what was started last."""
    if not {AGAIN, f"{LINK_PREFIX}{AGAIN}"} & form_data.keys():
        return spawner.read_form(form_data)
    last = spawner.orm_spawner.user_options if spawner.orm_spawner else None
    with bad_options_refused():
        return _again(spawner, options_of_last(form_data, last or {}))


async def _again(spawner: StartOptions, last: dict[str, object]) -> dict[str, object]:
    """What was started last; where it would have to wait, its user is led into line instead."""
    chosen = spawner.notebook_options(last)
    place = None
    if chosen.wants_gpu and spawner.scheduler_url:
        try:
            place = offered(await spawner.offers(), chosen)
        except SchedulerError as error:
            # The start waits for a scheduler that is just restarting, and says what is wrong.
            spawner.log.warning("No offers for %s: %s", spawner.user.name, error)
    if place is None or place[1].availability != "wait":
        return last
    url = line_url(spawner.ticket_url, spawner.name, chosen, place)
    if _was_pressed(spawner.handler):
        url = f"{spawner.ticket_url}/{(await spawner.take_ticket(chosen)).id}"
    message = gettext("This size is not free now: wait in line for it.")
    raise led_to(url, message, reason="wait_in_line")


def _was_pressed(handler: Any) -> bool:
    """Whether a page of this very origin leads here. Browsers let no page choose what they say of that; one
    that says nothing is asked first: a link alone puts nobody in line.
    """
    return handler is not None and handler.request.headers.get("Sec-Fetch-Site") == "same-origin"
