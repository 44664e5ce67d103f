"""Starting a server again as it was last started, with one press.

JupyterHub starts a server at once where a link to its spawn page carries options. ``again`` stands for
those of the last start: no page need know them, and what became of them meanwhile is said by the form.
"""

from __future__ import annotations

from collections.abc import Mapping

from tornado.httputil import url_concat

from gpucommons.spawner.form.answers import HUB_FIELDS, LINK_PREFIX, BadOptions

AGAIN = "again"


def again_url(spawn_url: str) -> str:
    """A link that starts at once what was started last."""
    return str(url_concat(spawn_url, {f"{LINK_PREFIX}{AGAIN}": "1"}))


def options_of_last(given: Mapping[str, object], last: Mapping[str, object]) -> dict[str, object]:
    """What was started last.

    Raises
    ------
    BadOptions
        Where nothing was, or something else is asked for besides.
    """
    others = sorted({key.removeprefix(LINK_PREFIX) for key in given} - {AGAIN} - HUB_FIELDS)
    if others:
        message = f"again starts what was started last: leave out {' and '.join(others)}."
        raise BadOptions(message)
    if not last:
        message = "Nothing was started here before: choose a size."
        raise BadOptions(message)
    # Its turn has passed.
    return {key: value for key, value in last.items() if key != "ticket"}
