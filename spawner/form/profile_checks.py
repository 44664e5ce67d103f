"""KubeSpawner's profiles, checked before anything is taken for a start.

KubeSpawner itself finds a wrong choice when the server starts, with the slice in hand, and with errors
that the hub counts as its own failures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpucommons.spawner.form.answers import BadOptions, shown


def check_sent(sent: Mapping[str, Sequence[object]]) -> None:
    """Refuse what a form cannot have sent.

    Raises
    ------
    BadOptions
        With a sentence for the user.
    """
    for key, values in sent.items():
        if key.startswith("profile") and not values:
            message = f"{shown(key)} is an empty list; give one value, or leave it out."
            raise BadOptions(message)


def check_profile(given: Mapping[str, object], profiles: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a profile, or a choice in it, that is not on offer.

    ``profiles`` are as KubeSpawner completes them: each has a slug, and one is the default.

    Raises
    ------
    BadOptions
        With a sentence for the user.
    """
    if not profiles:
        return
    slug = given.get("profile")
    if slug:
        chosen = next((one for one in profiles if one["slug"] == slug), None)
    else:
        chosen = next(one for one in profiles if one.get("default"))
    if chosen is None:
        raise _not_on_offer("profile", slug, (one["slug"] for one in profiles))
    for name, option in chosen.get("profile_options", {}).items():
        _check_option(name, option, given)


def _check_option(name: str, option: Mapping[str, Any], given: Mapping[str, object]) -> None:
    choices = option.get("choices") or {}
    key = f"{name}--unlisted-choice"
    unlisted, choice = given.get(key), given.get(name)
    if unlisted:
        _check_unlisted(key, unlisted, option.get("unlisted_choice") or {}, choices)
    # Compared, not looked up: what came as JSON may be a list.
    elif choice and not any(choice == one for one in choices):
        raise _not_on_offer(name, choice, choices)
    elif not choice and not choices:
        message = f"This profile needs a value of your own: give {key}."
        raise BadOptions(message)


def _check_unlisted(
    key: str, value: object, rule: Mapping[str, Any], choices: Iterable[object]
) -> None:
    if not rule.get("enabled"):
        raise _not_on_offer(key, value, choices)
    pattern = rule.get("validation_regex")
    if not isinstance(value, str) or (pattern and not re.match(pattern, value)):
        fit = f"text that fits {pattern}" if pattern else "text"
        message = f"{key} must be {fit}; got {shown(value)}."
        raise BadOptions(message)


def _not_on_offer(key: str, value: object, possible: Iterable[object]) -> BadOptions:
    names = ", ".join(str(one) for one in possible) or "none"
    return BadOptions(f"There is no {key} {shown(value)}. Possible are: {names}.")
