"""What an account of the machine is called after a user of the hub, where that is not the same name, and back."""

from __future__ import annotations

import argparse
import base64
import hashlib

USERNAME = "{username}"
ACCOUNTS_HELP = "what users' accounts are called, as jupyter-{username} (default: as the users)"
#: From so many characters on a name is cut, as on The Littlest JupyterHub (``tljh/normalize.py``). That keeps
#: 20 bits of a digest, for which anybody finds another name within seconds; 80 bits fit as well.
_LONG, _KEPT, _OF_DIGEST_BYTES = 26, 15, 10


def account_name(template: str, user: str) -> str:
    """``jupyter-{username}`` for a user; a long one is cut to 32 characters, and told from others by a digest."""
    name = template.replace(USERNAME, user)
    if template == USERNAME or len(name) < _LONG:
        return name
    digest = hashlib.sha256(name.encode()).digest()[:_OF_DIGEST_BYTES]
    return f"{name[:_KEPT]}-{base64.b32encode(digest).decode().lower()}"


def user_of_account(template: str, account: str) -> str | None:
    """Whose account it is; None where it is no user's, or was cut so that it cannot be told."""
    before, _, after = template.partition(USERNAME)
    user = account.removeprefix(before).removesuffix(after)
    return user if user and account_name(template, user) == account else None


def account_template(text: str) -> str:
    """A template that names one account for each user.

    Raises
    ------
    ArgumentTypeError
        When it names the same for all.
    """
    if text.count(USERNAME) == 1:
        return text
    message = f"{text!r} must have {USERNAME} in it once, as in jupyter-{USERNAME}"
    raise argparse.ArgumentTypeError(message)
