"""``gpucommons nodes``: the map of capacity, what is asked of autoscalers; cordon, fence, notice."""

from __future__ import annotations

import argparse
import re

from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import clock, show, table
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.client.call import Call
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.text.state_words import held_words, node_words

_DAY_S = 86_400
#: Another scheduler led before, and may have asked.
_OR_EARLIER = " or earlier"


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``nodes``."""
    command = commands.add_parser(
        "nodes", parents=[shared], help="the capacity map; cordon, fence …"
    )
    command.add_argument(
        "action", nargs="?", choices=("cordon", "uncordon", "fence", "notice", "growth")
    )
    command.add_argument("node", nargs="?")
    command.add_argument("--reason", default="", help="kept in the audit log")
    command.add_argument("--in", dest="in_s", help="with notice: 120s, 2m")
    command.set_defaults(run=nodes)


def nodes(arguments: argparse.Namespace) -> int:
    """List nodes, or change a node's state."""
    with connect(arguments) as scheduler:
        if arguments.action == "growth":
            asked = scheduler.send(calls.growth())
            show(asked, growth_text(asked), output=arguments.output)
            return 0
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


def growth_text(answer: models.GrowthList) -> str:
    """Which nodes autoscalers are asked for, and below the table what they say."""
    if not answer.pools:
        return "No pool gets nodes by demand: none has `growth` in its configuration."
    header = (
        "POOL",
        "NODES",
        "CORDONED",
        "AT MOST",
        "STARTING",
        "ASKED FOR",
        "FIRST SINCE",
        "LIKELY AT",
    )
    rows = (
        (
            one.pool,
            one.nodes,
            one.cordoned,
            one.max_nodes,
            len(one.booting),
            *_asked(one, answer.now_ms),
        )
        for one in answer.pools
    )
    said = [
        f"{one.pool}: {text}" for one in answer.pools for text in (one.refused, one.said) if text
    ]
    return "\n".join((table(header, rows), *said))


def _asked(pool: models.GrowthView, now_ms: int) -> tuple[str, str, str]:
    if pool.asked is None:
        return ("not known yet", "", "")
    if not pool.asked:
        return ("0", "", "")
    first = pool.asked[0]
    due = clock(first.due_ms) + (" (late)" if first.due_ms <= now_ms else "")
    since = clock(first.since_ms) + (_OR_EARLIER if first.or_earlier else "")
    return (str(len(pool.asked)), since, "refused" if pool.refused else due)


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
    if node.slow is not None:
        words = f"{words}, {_slow(node.slow)}"
    for pair in node.slow_pairs:
        words = f"{words}, with {pair.other} {_slow(pair.slow)}"
    return words if node.leaves_ms is None else f"{words}, taken back at {clock(node.leaves_ms)}"


def _slow(slow: models.SlowView) -> str:
    since, until = clock(slow.since_ms), clock(slow.until_ms)
    return f"steps {slow.percent} % longer (since {since}, avoided until {until})"


def _device(device: models.DeviceView) -> tuple[object, str, str]:
    kind = device.kind + (" (simulated)" if device.simulated else "")
    holds = (f"{_named(hold)} ({_said(hold)})" for hold in device.holds)
    ill = device.unhealthy
    if ill is None:
        return device.index, kind, ", ".join(holds) or "free"
    if ill.well_since_ms is None:
        state = f"unhealthy since {clock(ill.since_ms)} ({ill.text}): takes nothing new"
    else:
        state = f"was unhealthy ({ill.text}): takes work when it stays well for a minute"
    return device.index, kind, "; ".join((*holds, state))


def _named(hold: models.HoldView) -> str:
    """By its name where that says more than what it is."""
    share = format_milli_gpu(hold.milli_gpu)
    if hold.name == "notebook" and hold.shown_as.startswith("notebook"):
        return share
    return f"{hold.name or hold.team} {share}"


def _said(hold: models.HoldView) -> str:
    """What it is in words, and whose where the viewer may see that."""
    what = held_words(hold.shown_as)
    return f"{what} · {hold.owner}" if hold.owner else what
