"""Commands about teams, quotas, nodes and idle notebooks: what the *GPU admin* page does."""

from __future__ import annotations

import argparse
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress

import yaml

from gpucommons.gpu.slices.slices import format_milli_gpu, parse_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.documents import config_of, read_mapping
from gpucommons.scheduler.cli.operating.pruning import pruned
from gpucommons.scheduler.cli.present import clock, show, table
from gpucommons.scheduler.cli.profiles import commands as profiles
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.client.call import Call
from gpucommons.scheduler.errors import BadRequest, NotFound, UnknownTeam
from gpucommons.scheduler.models.text.state_words import held_words, node_words, state_words

MINUTE_MS = 60_000
_MIB_PER_GIB = 1024
#: More than the largest number any option takes; the scheduler knows the limit of each.
_MOST = 2**31 - 1
#: States of a lease in which it holds a GPU.
HOLDING = ("active", "warned", "granted")
#: How the server without a name is called.
_DEFAULT_SERVER = "default"


#: Audit rows that are shown.
_CHANGES = 50


_DAY_S = 86_400


def _changes(arguments: argparse.Namespace) -> int:
    with connect(arguments) as scheduler:
        answer = scheduler.send(calls.events(kinds=models.CHANGE_KINDS, newest=_CHANGES))
    rows = ((clock(event.at_ms), event.by, event.text) for event in reversed(answer.events))
    show(answer, table(("WHEN", "WHO", "WHAT, OLD → NEW"), rows), output=arguments.output)
    return 0


def teams(arguments: argparse.Namespace) -> int:
    """List teams with quota and use, or who changed them."""
    if arguments.changes:
        return _changes(arguments)
    with connect(arguments) as scheduler:
        answer = scheduler.send(calls.teams())
    rows = (
        (
            team.name,
            use.pool,
            f"{format_milli_gpu(use.fixed_used_milli_gpu)} of"
            f" {format_milli_gpu(use.quota.fixed_milli_gpu)}",
            f"{format_milli_gpu(use.guaranteed_used_milli_gpu)} of"
            f" {format_milli_gpu(use.quota.guaranteed_milli_gpu)}",
            format_milli_gpu(use.borrowed_milli_gpu),
            _limit(use.quota.limit_milli_gpu),
            use.quota.over_quota_weight,
            use.waiting,
        )
        for team in answer.teams
        for use in team.use
    )
    header = ("TEAM", "POOL", "FIXED", "GUARANTEED", "BORROWED", "LIMIT", "WEIGHT", "WAITING")
    show(answer, table(header, rows), output=arguments.output)
    return 0


def _limit(milli_gpu: int | None) -> str:
    return "none" if milli_gpu is None else format_milli_gpu(milli_gpu)


def apply(arguments: argparse.Namespace) -> int:
    """Apply a YAML file with pools, teams and policy, and profiles of teams."""
    document = read_mapping(arguments.file, of="pools, teams, policy or profiles")
    wanted = profiles.taken_from(arguments.file, document)
    # Who leads a team publishes its profiles, and may not read the rest.
    alone = wanted and not document and not arguments.prune
    config = None if alone else config_of(arguments.file, document)
    kept: list[str] = []
    with connect(arguments) as scheduler:
        if config is not None and arguments.prune:
            config, kept = pruned(scheduler, config, force=arguments.force)
        # What an entry leaves out goes to its default: people must see that here at the latest.
        told = [] if config is None else scheduler.send(calls.check_config(config)).changes
        told = [*told, *profiles.changes(scheduler, wanted)]
        answer = models.ConfigChanges(changes=told)
        if arguments.dry_run:
            text = "\n".join([*told, *kept]) or "Nothing would change."
            show(answer, text, output=arguments.output)
            return 0
        applied: models.TeamList | models.ConfigChanges = answer
        if config is not None:
            applied = scheduler.send(calls.put_config(config))
        profiles.put_all(scheduler, wanted, also=config is not None)
    done = ["Applied:", *(f"  {change}" for change in told)] if told else ["Nothing changed."]
    show(applied, "\n".join([*done, *kept]), output=arguments.output)
    return 0


def write_config(arguments: argparse.Namespace) -> int:
    """Print pools, teams and policy as they are, as a file for ``apply``."""
    with connect(arguments) as scheduler:
        found = scheduler.send(calls.get_config())
    document = found.model_dump(mode="json", exclude_defaults=True)
    show(found, yaml.safe_dump(document, sort_keys=False).rstrip(), output=arguments.output)
    return 0


def quota_set(arguments: argparse.Namespace) -> int:
    """Change a team's quota in a pool; what is not named stays."""
    update = _quota_update(arguments)
    with connect(arguments) as scheduler:
        pool = arguments.pool or _only_pool(scheduler.send(calls.pools()))
        use = _use(scheduler.send(calls.teams()), arguments.team, pool)
        quota = models.QuotaModel.model_validate({**use.quota.model_dump(), **update})
        change = models.QuotaChange(team=arguments.team, pool=use.pool, quota=quota)
        answer = scheduler.send(
            calls.set_quotas(models.QuotaChanges(changes=[change], dry_run=arguments.dry_run))
        )
    show(answer, answer.text, output=arguments.output)
    return 0 if answer.ok else 1


def _quota_update(arguments: argparse.Namespace) -> dict[str, int | None]:
    named = {
        "fixed_milli_gpu": arguments.fixed,
        "guaranteed_milli_gpu": arguments.guaranteed,
        "limit_milli_gpu": None if arguments.limit == "none" else arguments.limit,
    }
    update: dict[str, int | None] = {
        field: parse_milli_gpu(text) for field, text in named.items() if text is not None
    }
    if arguments.limit == "none":
        update["limit_milli_gpu"] = None
    if arguments.weight is not None:
        update["over_quota_weight"] = arguments.weight
    if not update:
        message = "Name what to change: --fixed, --guaranteed, --limit or --weight."
        raise BadRequest(message)
    return update


def _only_pool(answer: models.PoolList) -> str | None:
    """The pool that is meant where none is named: the only one, or the only one with GPUs."""
    with_gpus = [one.name for one in answer.pools if one.total_milli_gpu + one.out_milli_gpu]
    names = with_gpus or [pool.name for pool in answer.pools]
    return names[0] if len(names) == 1 else None


def _use(answer: models.TeamList, team: str, pool: str | None) -> models.TeamUseView:
    found = next((item for item in answer.teams if item.name == team), None)
    if found is None:
        message = f"There is no team {team}. Teams: {', '.join(t.name for t in answer.teams)}."
        raise UnknownTeam(message)
    uses = [use for use in found.use if pool in (None, use.pool)]
    if len(uses) == 1:
        return uses[0]
    if pool is not None and not uses:
        return models.TeamUseView(pool=pool, quota=models.QuotaModel())
    message = (
        f"Say which pool with --pool: {', '.join(use.pool for use in found.use) or 'none yet'}."
    )
    raise BadRequest(message)


def nodes(arguments: argparse.Namespace) -> int:
    """List nodes, or change a node's state."""
    with connect(arguments) as scheduler:
        if arguments.action is not None:
            node = scheduler.send(_of_node(arguments))
            show(node, f"{node.id}  {_state(node)}", output=arguments.output)
            return 0
        answer = scheduler.send(calls.nodes())
    rows = (
        (node.id, node.pool, _state(node), *cells)
        for node in answer.nodes
        for cells in [*map(_device, node.devices)] or [("", "no GPU", "")]
    )
    header = ("NODE", "POOL", "STATE", "GPU", "KIND", "HELD BY")
    show(answer, table(header, rows), output=arguments.output)
    return 0


def _of_node(arguments: argparse.Namespace) -> Call[models.NodeView]:
    """What is asked of one node."""
    if arguments.node is None:
        message = f"Name the node to {arguments.action}."
        raise BadRequest(message)
    if arguments.action == "notice":
        request = models.NodeNoticeRequest(in_s=_seconds(arguments.in_s or ""))
        return calls.notice_node(arguments.node, request)
    state = {"cordon": "cordoned", "uncordon": "ready", "fence": "fenced"}[arguments.action]
    asked = models.NodeStateRequest.model_validate({"state": state, "reason": arguments.reason})
    return calls.set_node_state(arguments.node, asked)


def _seconds(text: str) -> int:
    found = re.fullmatch(r"(\d{1,5})(s|m|h|)", text)
    seconds = int(found[1]) * {"m": 60, "h": 3600}.get(found[2], 1) if found else 0
    if not 1 <= seconds <= _DAY_S:
        message = f"Say in what time the cloud takes it back, at most a day: --in 120s, --in 2m (not {text!r})."
        raise BadRequest(message)
    return seconds


def _state(node: models.NodeView) -> str:
    words = node_words(node.state)
    if node.state_text:
        words = f"{words} ({node.state_text})"
    return words if node.leaves_ms is None else f"{words}, taken back at {clock(node.leaves_ms)}"


def _device(device: models.DeviceView) -> tuple[object, str, str]:
    kind = device.kind + (" (simulated)" if device.simulated else "")
    holds = (
        f"{hold.name or hold.team} {format_milli_gpu(hold.milli_gpu)} ({_said(hold)})"
        for hold in device.holds
    )
    return device.index, kind, ", ".join(holds) or "free"


def _said(hold: models.HoldView) -> str:
    """What it is in words, and whose where the viewer may see that."""
    what = held_words(hold.shown_as)
    return f"{what} · {hold.owner}" if hold.owner else what


def idle(arguments: argparse.Namespace) -> int:
    """List notebooks that hold a GPU, the longest idle first."""
    with connect(arguments) as scheduler:
        answer = scheduler.send(calls.activities())

    def since(view: models.ActivityView) -> int:
        known = view.lease.idle.idle_since_ms if view.lease.idle else None
        return known if known is not None else answer.now_ms

    rows = (
        (
            view.lease.id,
            view.lease.user,
            view.lease.team,
            format_milli_gpu(view.lease.milli_gpu),
            f"{(answer.now_ms - since(view)) // MINUTE_MS} min",
            "busy" if any(kernel.busy for kernel in view.kernels) else "",
            _on_idle(view.lease.idle),
            clock(view.reported_ms) or "no report",
        )
        for view in sorted(answer.activities, key=since)
    )
    header = ("LEASE", "USER", "TEAM", "GPU", "IDLE", "BUSY", "WHEN IDLE", "LAST REPORT")
    show(answer, table(header, rows), output=arguments.output)
    return 0


def _on_idle(idle: models.IdleView | None) -> str:
    """What becomes of it, and what its server says that it keeps: ``hibernate (keeps kernels)``."""
    if idle is None:
        return ""
    if idle.on_idle == "park":
        return f"park ({'it can' if idle.parks and not idle.not_parked else 'it cannot now'})"
    said = "not said" if not idle.keeps else f"keeps {idle.keeps}"
    return idle.on_idle if idle.on_idle == "cull" else f"{idle.on_idle} ({said})"


def notebook(scheduler: SchedulerClient, text: str, states: Sequence[str] = HOLDING) -> str:
    """The id of the lease that is meant: by its id, its user, or its user and server.

    Raises
    ------
    NotFound, BadRequest
        When there is none, or more than one.
    """
    with suppress(argparse.ArgumentTypeError):
        return lease_id(text)
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


def lease_id(text: str) -> str:
    """The id of a notebook's lease."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        message = (
            f"{text!r} is not the id of a notebook's lease: `gpucommons idle list` lists them."
        )
        raise argparse.ArgumentTypeError(message) from None


def reclaim(arguments: argparse.Namespace) -> int:
    """Take an idle notebook's GPU back."""
    request = models.ReclaimRequest(force=arguments.force, reason=arguments.reason)
    with connect(arguments) as scheduler:
        lease = scheduler.send(calls.reclaim(notebook(scheduler, arguments.lease), request))
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


def positive(text: str) -> int:
    """A number that counts something, as written."""
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= _MOST):
        message = f"{text!r} is not a number from 1 to {_MOST:,}."
        raise argparse.ArgumentTypeError(message)
    return int(text)


def gib(text: str) -> int:
    """A number of GiB as written, in MiB."""
    try:
        mib = round(float(text.lower().removesuffix("gib").strip()) * _MIB_PER_GIB)
    except (ValueError, OverflowError):
        mib = 0
    if not 0 < mib <= 1 << 30:
        message = f"{text!r} is not an amount of memory: write a number of GiB, for example 12.5."
        raise argparse.ArgumentTypeError(message)
    return mib


def _named_lease(text: str) -> str:
    try:
        return lease_id(text)
    except argparse.ArgumentTypeError as error:
        raise BadRequest(str(error)) from error


def resize(arguments: argparse.Namespace) -> int:
    """Change the memory limit of a notebook's slice."""
    with connect(arguments) as scheduler:
        request = models.ResizeRequest(memory_mib=arguments.gib)
        lease = scheduler.send(calls.resize(_named_lease(arguments.job), request))
    limit = 0 if lease.slice is None else lease.slice.memory_mib
    text = f"{lease.user}: {limit / _MIB_PER_GIB:.1f} GiB of GPU memory"
    show(lease, text, output=arguments.output)
    return 0
