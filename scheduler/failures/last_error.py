"""The last error of a log and where it was raised.

Python's tracebacks are read from their end. Of a launcher's own traceback (torchrun, accelerate), which
only says that a process failed, the process' traceback before it is taken. Without any, the last line
that speaks of an error is the cause.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

_LONGEST = 240
#: Before each line that launchers of ours write into a job's log, and whoever else wants to: such a line is no
#: reason of ours. What a supervisor knows it writes into its own record.
REMARK = "gpucommons: "
_AS_OURS = re.compile(r"(?:\d\d:\d\d:\d\d )?gpucommons\b", re.IGNORECASE)
#: Lines from the end in which an error that is no traceback is looked for.
_REACH = 60
#: Lines that look like the end of a traceback, of which as many are compared with what is before them.
_MOST_ENDS = 40
_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,16}[ -/]{0,2}[@-~]")
#: What launchers put before each line of a process.
_PREFIX = re.compile(
    r"^(?:\[(?:rank|default)\d{1,5}\]:? ?|\(\w{1,40} pid=\d{1,9}[^)]{0,60}\) |\d{1,4}: )"
)
_TRACEBACK = re.compile(r"^\s{0,8}(?:Traceback \(most recent call last\):|-{20,90}$)")
_FRAME = re.compile(r'^\s{1,12}File "(?P<file>[^"]{1,400})", line (?P<line>\d{1,9})')
#: IPython's frames: ``File ~/train.py:88, in f(x)`` and ``Cell In[3], line 5``.
_CELL = re.compile(r"^(?:Input |File )?(?P<file>[^\s:,]{1,300}):(?P<line>\d{1,9}), in ")
_NOTEBOOK = re.compile(r"^(?:Input )?Cell In ?\[(?P<cell>\d{1,6})\], line (?P<line>\d{1,9})")
_RAISED = re.compile(
    r"^(?P<what>[A-Za-z_][\w.]{0,120}?(?:Error|Exception|Interrupt|Exit|Warning|Timeout|Refused|NotFound"
    r"|Invalid|Failure|Unavailable|Denied|OutOfMemory)\w{0,20})(?::|$)(?P<message>.*)$"
)
_LAUNCHERS = (
    "ChildFailedError",
    "CalledProcessError",
    "ProcessRaisedException",
    "CellExecutionError",
)
_SPEAKS_OF_ERROR = re.compile(
    r"\b(?:error|fatal|exception|failed|failure|cannot|can't|denied|not found|no such|killed|aborted"
    r"|segmentation fault|core dumped|out of memory|illegal instruction|unrecognized arguments?)\b",
    re.IGNORECASE,
)
_LIBRARIES = ("site-packages", "dist-packages", "<frozen", "/lib/python3", "<string>", "importlib")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """The line that says what went wrong."""

    text: str
    #: ``train.py:88``; empty where none is named.
    place: str = ""
    #: Path of the script that ran, as the traceback has it; empty where there is none.
    script: str = ""
    #: Raised by the program itself, not only a line that mentions an error.
    is_raised: bool = False
    #: Written as by a launcher of ours, who says why: it needs no advice, and is quoted as anybody may have done it.
    is_remark: bool = False


def plain_lines(tail: str) -> list[str]:
    """Lines of a log's end, as text, without launchers' prefixes."""
    text = _ESCAPES.sub("", tail.replace("\r\n", "\n"))
    lines = (line.rpartition("\r")[2][:2000] for line in text.split("\n"))
    return [_PREFIX.sub("", _printable(line)).rstrip() for line in lines]


def find_cause(lines: Sequence[str]) -> Cause | None:
    """The cause, if the log names one."""
    raised = _last_raised(lines)
    if raised is not None and raised.is_raised:
        return raised
    return _last_remark(lines) or raised or _last_mentioned(lines)


def _last_raised(lines: Sequence[str]) -> Cause | None:
    found: Cause | None = None
    left = _MOST_ENDS
    for index in range(len(lines) - 1, -1, -1):
        match = _RAISED.match(lines[index])
        if match is None:
            continue
        left -= 1
        if left < 0:
            break
        frames = _frames_before(lines, index)
        if not frames and found is not None:
            continue
        cause = Cause(
            text=_short(lines[index]),
            place=_place(frames),
            script=next((file for file, _ in frames if _is_own(file)), ""),
            is_raised=bool(frames),
        )
        if not match["what"].endswith(_LAUNCHERS) and frames:
            return cause
        found = found or (None if match["what"].endswith(_LAUNCHERS) else cause)
    return found


def _frames_before(lines: Sequence[str], index: int) -> list[tuple[str, str]]:
    """Frames of the traceback that ends with this line, the outermost first."""
    frames: list[tuple[str, str]] = []
    for line in reversed(lines[max(0, index - 400) : index]):
        if _TRACEBACK.match(line):
            break
        if (match := _FRAME.match(line)) is not None or (match := _CELL.match(line)) is not None:
            frames.append((match["file"], match["line"]))
        elif (match := _NOTEBOOK.match(line)) is not None:
            frames.append((f"cell {match['cell']}", match["line"]))
        elif _RAISED.match(line) and frames:
            break
    return frames[::-1]


def _place(frames: Sequence[tuple[str, str]]) -> str:
    """The innermost frame of the user's own files; else the innermost of all."""
    if not frames:
        return ""
    own = [frame for frame in frames if _is_own(frame[0])]
    file, line = (own or frames)[-1]
    if file.startswith("cell "):
        return f"{file}, line {line}"
    return f"{PurePath(file).name}:{line}"


def _is_own(file: str) -> bool:
    return not any(part in file for part in _LIBRARIES)


def _last_remark(lines: Sequence[str]) -> Cause | None:
    """Where it is the last word: who says it ends."""
    last = next((line for line in reversed(lines) if line), "")
    if not last.startswith(REMARK):
        return None
    return Cause(text=_short(last), is_remark=True)


def _last_mentioned(lines: Sequence[str]) -> Cause | None:
    for line in reversed(lines[-_REACH:]):
        if _SPEAKS_OF_ERROR.search(line) and not _FRAME.match(line):
            return Cause(text=_short(line), is_remark=_AS_OURS.match(line) is not None)
    return None


def _short(line: str) -> str:
    text = " ".join(line.split()).rstrip(".")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _printable(line: str) -> str:
    return "".join(c for c in line if c.isprintable() or c == "\t")
