"""A values file of Zero to JupyterHub as its admin wrote it: changed only where ours comes in, undone to the byte.

What YAML cannot keep (a line's indent, quotes, line ends) is carried over from the admin's text; what cannot
be carried over is written down beside the values of before, so that undoing brings it back.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, MutableMapping
from typing import Any

from gpucommons.gpu.extras import coming_with
from gpucommons.scheduler.cli.install import changes
from gpucommons.scheduler.cli.install.admins_lines import carried_over, digest, gone_back, way_back
from gpucommons.scheduler.errors import BadRequest

_BYTE_ORDER_MARK = "\ufeff"
_WAY_BACK = "file"
_FIRST_INDENT = re.compile(
    r"^[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*( +)[^\s#-]", re.MULTILINE
)


def applied(
    file: ValuesFile, choice: changes.Choice
) -> tuple[str, list[changes.Value | changes.Item]]:
    """The file with all that is ours, and what of it was not so yet.

    Raises
    ------
    BadRequest
        Where its values stand against ours.
    """
    is_ours = changes.at(file.values, changes.RECORD) is not None
    original = undone(file.read)[0] if is_ours else file.read
    check_shared(file.values, choice)
    done = changes.apply(file.values, choice)
    after = file.text()
    way = way_back(_without_ours(after)[0], original)
    if changes.at(file.values, (*changes.RECORD, _WAY_BACK)) == way:
        return after, done
    file.values[changes.RECORD[0]][changes.RECORD[1]][_WAY_BACK] = way
    return file.text(), done


def undone(text: str) -> tuple[str, bool]:
    """The file without ours, and whether it is known to be the file of before, byte for byte."""
    plain, way = _without_ours(text)
    original = gone_back(plain, way)
    return original, digest(original) == way.get("sha256")


def _without_ours(text: str) -> tuple[str, Mapping[str, Any]]:
    file = ValuesFile(text)
    way = changes.at(file.values, (*changes.RECORD, _WAY_BACK))
    if not changes.undo(file.values):
        return text, {}
    return file.text(), way if isinstance(way, Mapping) else {}


def check_shared(values: Any, choice: changes.Choice) -> None:
    """Refuse values that stand at several places at once: a change at one of them would be one at all.

    Raises
    ------
    BadRequest
        With the place, and what to do.
    """
    for change in changes.changes(choice):
        for depth in range(1, len(change.path) + 1):
            place = changes.at(values, change.path[:depth])
            if getattr(getattr(place, "anchor", None), "value", None) or getattr(
                place, "merge", None
            ):
                message = (
                    f"{'.'.join(change.path[:depth])} is shared with another place (& and * or << of YAML): a"
                    " change here would be one there. Write it out, then run this again."
                )
                raise BadRequest(message)


class ValuesFile:
    """What a text holds, to be changed in place.

    Raises
    ------
    BadRequest
        Where the text is no YAML, or no mapping.
    """

    def __init__(self, text: str) -> None:
        #: As it was read.
        self.read = text
        self._mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
        self._end = "\r\n" if text.count("\r\n") == text.count("\n") > 0 else "\n"
        self._own = text.removeprefix(self._mark).replace(self._end, "\n")
        self._yaml = _yaml_as(self._own)
        self.values: MutableMapping[str, Any] = self._load(self._own)
        self._before = self._dumped()

    def text(self) -> str:
        """The file as it is with the values of now."""
        after = self._dumped()
        own, before = self._own.splitlines(keepends=True), self._before.splitlines(keepends=True)
        found = carried_over(own, before, after.splitlines(keepends=True))
        kept = after if found is None else "".join(found)
        return self._mark + (kept if self._holds(kept) else after).replace("\n", self._end)

    def _holds(self, text: str) -> bool:
        try:
            return bool(self._load(text) == self.values)
        except BadRequest:
            return False

    def _load(self, text: str) -> Any:
        from ruamel.yaml.error import YAMLError  # noqa: PLC0415 - an extra

        try:
            # The type of an empty one is that of all others, which has room for comments.
            found = self._yaml.load(text)
            found = self._yaml.load("{}") if found is None else found
        except YAMLError as error:
            message = f"The values are not YAML: {getattr(error, 'problem', None) or error}."
            raise BadRequest(message) from None
        if not hasattr(found, "items"):
            raise BadRequest("The values must be a mapping, as the chart has it.")
        if not found:
            found.fa.set_block_style()
        return found

    def _dumped(self) -> str:
        if not self.values:
            return ""
        out = io.StringIO()
        self._yaml.dump(_as_written(self.values), out)
        return out.getvalue()


def _yaml_as(text: str) -> Any:
    """A reader and writer that lays out as the text does, as far as it can."""
    with coming_with("install"):
        from ruamel.yaml import YAML  # noqa: PLC0415 - an extra
        from ruamel.yaml.error import YAMLError  # noqa: PLC0415
        from ruamel.yaml.util import load_yaml_guess_indent  # noqa: PLC0415
    made = YAML()
    made.preserve_quotes = True
    made.width = 10_000
    try:
        _, sequence, offset = load_yaml_guess_indent(text)
    except (YAMLError, TypeError):
        sequence = offset = None
    first = _FIRST_INDENT.search(text)
    mapping = len(first[1]) if first else 2
    made.indent(mapping=mapping, sequence=sequence or 2, offset=offset or 0)
    return made


def _as_written(value: Any) -> Any:
    """Our own text of several lines as a block, which is how people read it."""
    from ruamel.yaml.scalarstring import LiteralScalarString  # noqa: PLC0415 - an extra

    config = changes.at(value, ("hub", "extraConfig"))
    if config and type(config.get(changes.CONFIG_KEY)) is str:
        config[changes.CONFIG_KEY] = LiteralScalarString(config[changes.CONFIG_KEY])
    return value
