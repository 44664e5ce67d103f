"""Look at one's notifications, choose them, send a test, read the week."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import get_args

from pydantic import ValidationError

from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import printable, show, table
from gpucommons.scheduler.client import report_calls
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.notifications import (
    AboutName,
    ChannelView,
    ConfirmRequest,
    NotificationRequest,
    NotificationsView,
)
from gpucommons.scheduler.models.text.field_errors import first_mistake

_ALL = get_args(AboutName)
#: What ``--mail`` and ``--webhook`` take.
_LIST = f"of {', '.join(_ALL)}, as in finish,preempt; all, or none"
_HEADER = ("MADE", "BY", "SUBJECT", "BECAME", "")


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``notify`` and ``users``."""
    _add_users(commands, shared)
    own = commands.add_parser(
        "notify",
        help="what you are told by mail and webhook: show, set, confirm, test, week",
        description=f"You can be told of: {', '.join(_ALL)}.",
    ).add_subparsers(required=True)
    own.add_parser(
        "show", parents=[shared], help="what is chosen, and what became of the last messages"
    ).set_defaults(run=detail)
    choose = own.add_parser("set", parents=[shared], help="choose; what you do not name stays")
    choose.add_argument("--mail", type=about, metavar="LIST", help=_LIST)
    choose.add_argument(
        "--address", help='where mail goes ("": as your admin\'s rule says, if there is one)'
    )
    choose.add_argument("--webhook", type=about, metavar="LIST", help=_LIST)
    choose.add_argument("--to", metavar="URL", help='where webhooks are posted ("": nowhere)')
    choose.add_argument("--new-key", action="store_true", help="sign webhooks with a new key")
    choose.set_defaults(run=choosing)
    confirm = own.add_parser(
        "confirm", parents=[shared], help="enter the code that was mailed to your new address"
    )
    confirm.add_argument("code")
    confirm.set_defaults(run=confirming)
    own.add_parser("test", parents=[shared], help="send a test by every way").set_defaults(run=test)
    own.add_parser("week", parents=[shared], help="the last week's summary").set_defaults(run=week)


def _add_users(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    users = commands.add_parser("users", help="forget what a removed user has chosen (admins)")
    gone = users.add_subparsers(required=True).add_parser(
        "forget",
        parents=[shared],
        help="forget what a user chose to be told, and the messages: the next of that name is another",
    )
    gone.add_argument("user")
    gone.set_defaults(run=forgetting)


def about(text: str) -> list[AboutName]:
    """Read ``finish,preempt``, ``all`` or ``none``."""
    if text in ("all", "none"):
        return list(_ALL) if text == "all" else []
    parts = [part.strip() for part in text.split(",")]
    unknown = [part for part in parts if part not in _ALL]
    if unknown:
        message = f"{unknown[0][:40]!r} is none of {', '.join(_ALL)}, all, none."
        raise argparse.ArgumentTypeError(message)
    return [name for name in _ALL if name in parts]


def detail(arguments: argparse.Namespace) -> int:
    """What is chosen."""
    with connect(arguments) as scheduler:
        answer = scheduler.send(report_calls.notifications())
    show(answer, as_text(answer), output=arguments.output)
    return 0


def choosing(arguments: argparse.Namespace) -> int:
    """Choose; what is not named stays."""
    given = {
        "mail": arguments.mail,
        "address": arguments.address,
        "webhook": arguments.webhook,
        "url": arguments.to,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes and not arguments.new_key:
        raise BadRequest("Say what to change: --mail, --address, --webhook, --to or --new-key.")
    with connect(arguments) as scheduler:
        before = scheduler.send(report_calls.notifications())
        known = {
            "mail": before.mail.about,
            "address": before.own_address,
            "webhook": before.webhook.about,
            "url": before.webhook.to,
        }
        if before.version:
            # An older scheduler tells none, and would refuse to be told one.
            changes["seen"] = before.version
        try:
            request = NotificationRequest.model_validate(
                {**known, **changes, "new_key": arguments.new_key}
            )
        except ValidationError as error:
            raise BadRequest(first_mistake(error)) from None
        answer = scheduler.send(report_calls.set_notifications(request))
    show(answer, as_text(answer), output=arguments.output)
    return 0


def confirming(arguments: argparse.Namespace) -> int:
    """Send the code back."""
    try:
        request = ConfirmRequest(code=arguments.code)
    except ValidationError as error:
        raise BadRequest(first_mistake(error)) from None
    with connect(arguments) as scheduler:
        answer = scheduler.send(report_calls.confirm_address(request))
    show(answer, f"Confirmed: mail goes to {printable(answer.mail.to)}.", output=arguments.output)
    return 0


def forgetting(arguments: argparse.Namespace) -> int:
    """Forget a user's choice and messages."""
    with connect(arguments) as scheduler:
        answer = scheduler.send(report_calls.forget_user(arguments.user))
    text = (
        f"What {printable(answer.user)} chose to be told and {answer.messages} messages are forgotten."
        " Jobs, schedules and files of that name stay."
    )
    show(answer, text, output=arguments.output)
    return 0


def test(arguments: argparse.Namespace) -> int:
    """Have a test sent."""
    with connect(arguments) as scheduler:
        answer = scheduler.send(report_calls.test_notifications())
    text = "A test is on its way. `gpucommons notify show` says what became of it."
    show(answer, text, output=arguments.output)
    return 0


def week(arguments: argparse.Namespace) -> int:
    """Print the last week's summary; nothing is sent."""
    with connect(arguments) as scheduler:
        answer = scheduler.send(report_calls.notifications_week())
    show(answer, answer.text, output=arguments.output)
    return 0


def as_text(answer: NotificationsView) -> str:
    """Two lines, a new key, and the last messages."""
    lines = [_way("mail", answer.mail), _way("webhook", answer.webhook)]
    if answer.key is not None:
        lines += [
            "",
            f"Webhooks are signed with this key, which is not shown again: {answer.key}",
        ]
    if answer.newest:
        rows = [
            (
                f"{datetime.fromtimestamp(one.made_ms / 1000, UTC):%Y-%m-%d %H:%M}",
                one.channel,
                printable(one.subject),
                one.fate,
                printable(one.said),
            )
            for one in answer.newest
        ]
        lines += ["", table(_HEADER, rows)]
    return "\n".join(lines)


def _way(name: str, way: ChannelView) -> str:
    if way.why_not:
        return f"{name}: off. {way.why_not}"
    if not way.about:
        return f"{name}: nothing is chosen"
    said = f"{name}: {', '.join(way.about)}, to {printable(way.to)}"
    return f"{said}. {way.waits}" if way.waits else said
