"""``gpucommons idle list``, ``idle park``, ``reclaim`` and ``release``: GPUs that notebooks hold."""

from __future__ import annotations

import argparse
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress

from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import clock, show, table
from gpucommons.scheduler.client import SchedulerClient, calls, parking_calls
from gpucommons.scheduler.errors import BadRequest, NotFound, NotIdle
from gpucommons.scheduler.models.text.state_words import state_words

_MINUTE_MS = 60_000
_MIB_PER_GIB = 1024
#: States of a lease in which it holds a GPU, and those that ``park`` may find it in.
_HOLDING = ("active", "warned", "granted")
_STATES = (*_HOLDING, "parking", "parked")
#: How the server without a name is called.
_DEFAULT_SERVER = "default"
#: Its server parks it within seconds; the scheduler gives up after minutes.
_WITHIN_S = 90.0
_LOOK_S = 0.5


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``idle``, ``reclaim`` and ``release``."""
    named = "USER, USER/SERVER, or a lease's id"
    own = commands.add_parser("idle", help="idle notebooks").add_subparsers(required=True)
    own.add_parser("list", parents=[shared], help="who holds a GPU idle").set_defaults(run=idle)
    command = own.add_parser("park", parents=[shared], help="move its GPU memory to the host")
    command.add_argument("lease", metavar="NOTEBOOK", help=named)
    about = "told to its user, where it is another's"
    command.add_argument("--reason", default="", help=about)
    command.set_defaults(run=park)
    command = commands.add_parser("reclaim", parents=[shared], help="take a notebook's GPU back")
    command.add_argument("lease", metavar="NOTEBOOK", help=named)
    command.add_argument("--force", action="store_true", help="even if busy; needs --reason")
    command.add_argument("--reason", default="")
    command.set_defaults(run=reclaim)
    about = (
        "give the GPU of an own notebook back: it restarts without it, and what its server cannot"
        " keep of its kernels is lost"
    )
    command = commands.add_parser("release", parents=[shared], help=about)
    command.add_argument("lease", metavar="LEASE", help="id of the lease, as `why` says it")
    command.set_defaults(run=release)


def idle(arguments: argparse.Namespace) -> int:
    """List notebooks that hold a GPU, the longest idle first."""
    with connect(arguments) as scheduler:
        answer = scheduler.send(calls.activities())

    def since(view: models.ActivityView) -> int:
        known = view.idle_since_ms()
        return known if known is not None else answer.now_ms

    rows = (
        (
            view.lease.id,
            view.lease.user,
            view.lease.team,
            format_milli_gpu(view.lease.milli_gpu),
            _idle_for(view, answer.now_ms),
            "busy" if any(kernel.busy for kernel in view.kernels) else "",
            _on_idle(view.lease.idle),
            clock(view.reported_ms) or "no report",
        )
        for view in sorted(answer.activities, key=since)
    )
    header = ("LEASE", "USER", "TEAM", "GPU", "IDLE", "BUSY", "WHEN IDLE", "LAST REPORT")
    show(answer, table(header, rows), output=arguments.output)
    return 0


def _idle_for(view: models.ActivityView, now_ms: int) -> str:
    """A length only where it is known to be idle: no report is no use, and none is not 0 minutes."""
    since_ms = view.idle_since_ms()
    if since_ms is None:
        return "in use" if view.is_in_use(now_ms) else "not known"
    return f"{(now_ms - since_ms) // _MINUTE_MS} min"


def _on_idle(idle: models.IdleView | None) -> str:
    """What becomes of it, and what its server says that it keeps: ``hibernate (keeps kernels)``."""
    if idle is None:
        return ""
    if idle.on_idle == "park":
        return f"park ({'it can' if idle.parks and not idle.not_parked else 'it cannot now'})"
    said = "not said" if not idle.keeps else f"keeps {idle.keeps}"
    return idle.on_idle if idle.on_idle == "cull" else f"{idle.on_idle} ({said})"


def park(arguments: argparse.Namespace) -> int:
    """Move a notebook's GPU memory to the host, and give its GPU to others; 1 where it stays."""
    request = models.ParkRequest(text=arguments.reason)
    with connect(arguments) as scheduler:
        asked = _notebook(scheduler, arguments.lease, _STATES)
        lease = _settled(scheduler, scheduler.send(parking_calls.park(asked, request)))
    because = "" if lease.idle is None else lease.idle.not_parked
    text = f"{lease.user}: {state_words(lease.state)}"
    if lease.state == "parked":
        text += ": its GPU is free for others until its user runs a cell"
    elif lease.state in _HOLDING and because:
        text = f"{lease.user}: not parked, and goes on with its GPU: {because}"
    elif lease.state == "parking":
        text = f"{lease.user}: still being parked; ask again to hear what came of it"
    show(lease, text, output=arguments.output)
    return 0 if lease.state in ("parking", "parked") else 1


def _settled(scheduler: SchedulerClient, lease: models.LeaseView) -> models.LeaseView:
    """Parked, or with what stood in the way."""
    until_s = time.monotonic() + _WITHIN_S
    while lease.state == "parking" and time.monotonic() < until_s:
        time.sleep(_LOOK_S)
        lease = scheduler.send(calls.lease(lease.id))
    return lease


def reclaim(arguments: argparse.Namespace) -> int:
    """Take an idle notebook's GPU back."""
    request = models.ReclaimRequest(force=arguments.force, reason=arguments.reason)
    with connect(arguments) as scheduler:
        notebook = _notebook(scheduler, arguments.lease)
        try:
            lease = scheduler.send(calls.reclaim(notebook, request))
        except NotIdle as busy:
            by_force = f"gpucommons reclaim {arguments.lease} --force --reason 'WHY'"
            raise NotIdle(f"{busy} By force: {by_force}") from busy
    until = lease.idle.returns_ms if lease.idle else None
    text = (
        f"{lease.user}: the GPU is to be returned at {clock(until)}"
        if until
        else f"{lease.user}: {state_words(lease.state)}"
    )
    if arguments.force:
        text = f"{lease.user}: the notebook is stopped now; your reason is kept for its user"
    show(lease, text, output=arguments.output)
    return 0


def release(arguments: argparse.Namespace) -> int:
    """Give an own notebook's GPU back; its server starts again without one."""
    with connect(arguments) as scheduler:
        lease = scheduler.send(calls.lease(_lease_id(arguments.lease)))
        if lease.state == "granted":
            lease = scheduler.send(calls.end_lease(lease.id, models.EndReport(why="left")))
        else:
            lease = scheduler.send(calls.drop(lease.id))
    text = f"{lease.user}: the GPU of notebook {lease.server_name or 'default'} is given back"
    show(lease, text, output=arguments.output)
    return 0


def resize(arguments: argparse.Namespace) -> int:
    """Change the memory limit of a notebook's slice."""
    with connect(arguments) as scheduler:
        request = models.ResizeRequest(memory_mib=arguments.gib)
        lease = scheduler.send(calls.resize(_lease_id(arguments.job), request))
    limit = 0 if lease.slice is None else lease.slice.memory_mib
    text = f"{lease.user}: {limit / _MIB_PER_GIB:.1f} GiB of GPU memory"
    show(lease, text, output=arguments.output)
    return 0


def _notebook(scheduler: SchedulerClient, text: str, states: Sequence[str] = _HOLDING) -> str:
    """The id of the lease that is meant: by its id, its user, or its user and server.

    Raises
    ------
    NotFound, BadRequest
        When there is none, or more than one.
    """
    with suppress(BadRequest):
        return _lease_id(text)
    user, _, server = text.partition("/")
    held = [
        lease
        for state in states
        for lease in _leases(scheduler, state)
        if lease.user == user and (not server or server == (lease.server_name or _DEFAULT_SERVER))
    ]
    if len(held) == 1:
        return held[0].id
    if not held:
        message = (
            f"{text!r} names no notebook that holds a GPU: `gpucommons idle list` lists them. Write"
            " USER, USER/SERVER or the lease's id."
        )
        raise NotFound(message)
    servers = ", ".join(f"{user}/{lease.server_name or _DEFAULT_SERVER}" for lease in held)
    message = f"{user} has several notebooks with a GPU: say which: {servers}."
    raise BadRequest(message)


def _leases(scheduler: SchedulerClient, state: str) -> Iterator[models.LeaseView]:
    page = scheduler.send(calls.leases(state=state))
    yield from page.leases
    while page.cursor is not None:
        page = scheduler.send(calls.leases(state=state, cursor=page.cursor))
        yield from page.leases


def _lease_id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        message = (
            f"{text!r} is not the id of a notebook's lease: `gpucommons idle list` lists them."
        )
        raise BadRequest(message) from None
