"""A hub's own ``jupyterhub_config.py``: our lines go below it, between two marks; pure, over its text.

The file is read as Python and never run. What stands against us in it is refused with its line; nothing
of the admin's is changed, so taking our lines out again gives the file as it was.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePath

from gpucommons.scheduler.errors import BadRequest

BEGIN = "# >>> GPU Commons: written by `gpucommons install`; --undo takes it out again >>>"
END = "# <<< GPU Commons <<<"
_OURS = "configure_beside"
#: So that undoing takes the end of that line away again.
_NO_NEWLINE = "# The line above had no end.\n"
_LINES = f"""
{BEGIN}
{{note}}from gpucommons.spawner.workstation import configure_beside

configure_beside(c, {{state!r}})  # noqa: F821
{END}
"""
#: Ours starts processes of this machine, as these do.
_LIKE_OURS = {"localprocess", "jupyterhub.spawner.LocalProcessSpawner", "LocalProcessSpawner"}
_CULLERS = ("jupyterhub_idle_culler", "jupyterhub-idle-culler", "cull_idle_servers")


def applied(text: str, state: PurePath) -> str:
    """The file with our lines at its end, where they see what stands above.

    Raises
    ------
    BadRequest
        Where the file is no Python, or something in it stands against ours.
    """
    own = undone(text)
    found = next(_littlest(own), None) or next(contradictions(own), None)
    if found is not None:
        raise BadRequest(found)
    is_ended = own.endswith("\n") or not own
    lines = _LINES.format(note="" if is_ended else _NO_NEWLINE, state=str(state))
    return own + ("" if is_ended else "\n") + lines


def undone(text: str) -> str:
    """The file without our lines.

    Raises
    ------
    BadRequest
        Where one of the two marks is missing: what is ours cannot be told then.
    """
    if BEGIN not in text and END not in text:
        return text
    before, begin, rest = text.partition(f"\n{BEGIN}\n")
    ours, end, after = rest.partition(f"\n{END}\n")
    if not begin or not end or BEGIN in ours + after or END in before + after:
        message = (
            "The marks around our lines are not whole: take the lines of GPU Commons out by hand, from"
            f" {BEGIN!r} to {END!r}."
        )
        raise BadRequest(message)
    if ours.startswith(_NO_NEWLINE) and not after:
        before = before.removesuffix("\n")
    return before + after


def remarks(text: str) -> Iterator[str]:
    """What was not looked at."""
    for node in ast.walk(_parsed(text)):
        if isinstance(node, ast.Call) and _name(node.func) in {"load_subconfig", "exec"}:
            yield f"Line {node.lineno} reads another file, which was not looked at."


def contradictions(text: str) -> Iterator[str]:
    """What in a file of a hub's configuration stands against ours, with its line."""
    try:
        tree = _parsed(text)
    except (SyntaxError, ValueError) as error:
        yield f"The file is no Python (line {getattr(error, 'lineno', '?')}): a hub would not read it either."
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _spawner(target, node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _culler(node.value, node.lineno)
        elif isinstance(node, ast.Call) and _name(node.func) == _OURS:
            yield f"Line {node.lineno} calls {_OURS} outside our marks: take it out, then run this again."


def _parsed(text: str) -> ast.Module:
    return ast.parse(text.removeprefix("\ufeff"))


def _littlest(text: str) -> Iterator[str]:
    """That it is the file of The Littlest JupyterHub itself, which its next upgrade writes anew."""
    try:
        tree = _parsed(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        if any(name.split(".")[0] == "tljh" for name in names):
            yield (
                f"Line {getattr(node, 'lineno', 1)}: this is The Littlest JupyterHub's own file. `gpucommons install --tljh` looks"
                " at its folder instead, and adds files of ours."
            )


def _spawner(target: ast.expr, value: ast.expr) -> Iterator[str]:
    if not (
        isinstance(target, ast.Attribute) and ast.unparse(target) == "c.JupyterHub.spawner_class"
    ):
        return
    said = value.value if isinstance(value, ast.Constant) else _name(value)
    if said not in _LIKE_OURS:
        yield (
            f"Line {target.lineno} sets another spawner ({ast.unparse(value)}): GPUs are given by ours, which"
            " starts processes of this machine as LocalProcessSpawner does. Take the line out if that"
            " may be."
        )


def _culler(text: str, line: int) -> Iterator[str]:
    if any(name in text for name in _CULLERS):
        yield (
            f"Line {line} starts another idle culler: two would stop each other's notebooks. Take that"
            " service and its role out; ours knows what a GPU does."
        )


def _name(node: ast.expr) -> str:
    return (
        node.id
        if isinstance(node, ast.Name)
        else node.attr
        if isinstance(node, ast.Attribute)
        else ""
    )
