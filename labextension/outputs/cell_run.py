"""One run of a cell: what it has printed so far, as few messages as say the same. Pure.

A cell that prints for hours sends more than a page should be given: text is joined, what a progress
bar has overwritten is dropped, and of too much the newest is kept and the rest said to be missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

#: Kept of one run. Half of it stays when it was too much.
MOST_BYTES = 4 << 20
#: Text is joined up to here: joining more would cost more with each line.
_MOST_JOINED = 64 << 10
#: Ids of messages by which a page knows what it has heard itself meanwhile.
MOST_RECENT, _LONGEST_ID = 512, 256
LEFT_OUT = "[… what it printed before is too much to be kept …]\n"

_SHOWN = frozenset({"stream", "display_data", "execute_result", "error", "update_display_data"})
#: Of a picture shown again and again only the last one counts, for as many displays as these.
_OVERHEAD = 200

Message = dict[str, Any]


class CellRun(BaseModel):
    """A cell as it was run, and its outputs."""

    #: Of the request.
    id: str
    kernel_id: str
    #: Its notebook; "" = not known.
    path: str
    cell_id: str
    #: A cell that was changed since then is another one.
    code: str
    #: The page that ran it.
    session: str
    begun_ms: int
    state: str = Field(default="running", pattern="^(running|done|ended)$")
    execution_count: int | None = None
    messages: list[Message] = []
    recent: list[str] = []
    #: Something of it came while the page that ran it was away.
    is_unseen: bool = False
    clears: bool = False
    bytes: int = 0

    def take(self, header: Mapping[str, Any], content: Mapping[str, Any], metadata: Any) -> None:
        """A message of the kernel's that belongs to this run."""
        kind = header["msg_type"]
        self.recent = [*self.recent[1 - MOST_RECENT :], header["msg_id"][:_LONGEST_ID]]
        if kind == "status":
            if content.get("execution_state") == "idle":
                self.state = "done"
        elif kind == "execute_input":
            self.execution_count = content.get("execution_count")
        elif kind == "clear_output":
            self.clears = bool(content.get("wait"))
            if not self.clears:
                self._forget()
        elif kind in _SHOWN:
            self._show(kind, header, dict(content), metadata)

    def _show(self, kind: str, header: Mapping[str, Any], content: Message, metadata: Any) -> None:
        if self.clears:
            self.clears = False
            self._forget()
        last = self.messages[-1] if self.messages else None
        if kind == "stream" and last and _is_of_stream(last, content["name"]):
            before, start, line = last["content"]["text"].rpartition("\n")
            joined = overwritten(line + content["text"])
            last["content"]["text"] = f"{before}{start}{joined}"
            self.bytes += len(joined) - len(line)
        else:
            self._drop_updated(kind, content)
            message = {"header": dict(header), "content": content, "metadata": metadata}
            self.messages.append(message)
            self.bytes += _size(message)
        if self.bytes > MOST_BYTES:
            self._shorten()

    def _drop_updated(self, kind: str, content: Message) -> None:
        """An update of a display makes the update before it pointless."""
        if kind != "update_display_data":
            return
        which = content.get("transient")
        for message in self.messages:
            is_update = message["header"]["msg_type"] == kind
            if is_update and message["content"].get("transient") == which:
                self.bytes -= _size(message)
                self.messages.remove(message)
                return

    def _forget(self) -> None:
        self.messages, self.bytes = [], 0

    def _shorten(self) -> None:
        """Keep the newest half, and say so."""
        room = MOST_BYTES // 2
        kept: list[Message] = []
        for message in reversed(self.messages):
            room -= _size(message)
            if room < 0:
                break
            kept.append(message)
        self.messages = [_said(), *kept[::-1]]
        self.bytes = sum(map(_size, self.messages))


def overwritten(text: str) -> str:
    """The same on a page: of a line that was written over and over only what is seen of it.

    What comes after the last return to the line's start stays apart: more of it may come.
    """
    if text.count("\r") < 2:  # noqa: PLR2004 - one return overwrites nothing that could be dropped
        return text
    *lines, last = text.split("\n")
    return "\n".join([*(_of_line(line, "\r") for line in lines), _of_line(last, "")])


def _of_line(line: str, kept: str) -> str:
    """One line; a return at its end stays where it is followed by a new line."""
    if line.count("\r") < 2:  # noqa: PLR2004
        return line
    end = kept if line.endswith("\r") else ""
    *parts, after = line.removesuffix(end).split("\r")
    if len(parts) < 2:  # noqa: PLR2004
        return line
    return f"{_seen(parts)}\r{after}{end}"


def _seen(parts: list[str]) -> str:
    """Of what was written one over the other: the last hides of the others what it covers."""
    shown: list[str] = []
    width = 0
    for part in reversed(parts):
        if len(part) > width:
            shown.append(part[width:])
            width = len(part)
    return "".join(shown)


def _is_of_stream(message: Message, name: str) -> bool:
    content = message["content"]
    is_stream = message["header"]["msg_type"] == "stream" and content["name"] == name
    return is_stream and len(content["text"]) < _MOST_JOINED


def _said() -> Message:
    return {
        "header": {"msg_type": "stream"},
        "content": {"name": "stderr", "text": LEFT_OUT},
        "metadata": {},
    }


def _size(message: Message) -> int:
    """All of it as it is written: a kernel may put anything anywhere. Text of a stream is counted as it grows."""
    content, text = message["content"], ""
    if message["header"]["msg_type"] == "stream":
        text, content = content["text"], {**content, "text": ""}
    rest = json.dumps({**message, "content": content}, ensure_ascii=False)
    return len(text) + len(rest) + _OVERHEAD
