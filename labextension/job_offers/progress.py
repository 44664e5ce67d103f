"""How far a cell is, by the progress that it prints: bars of tqdm, lines ``Epoch 3/10``. Pure.

A bar that is drawn by widgets prints nothing that could be read here: nothing is known then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# What a cell prints is anything: numbers have an end, and nothing is looked for across empty lines, of which
# each would be looked at as often as there are others.
_BAR = re.compile(
    r"(?P<percent>\d{1,3})%\|[^|\r\n]*\|\s*(?P<done>\d{1,15})/(?P<of>\d{1,15})\s*"
    r"\[(?P<ran>\d{1,6}(?::\d\d){1,2})<"
)
_EPOCH = re.compile(
    r"^[^\w\n]*epoch\W{0,3}(\d{1,6})\s*/\s*(\d{1,6})\b", re.IGNORECASE | re.MULTILINE
)
#: A bar is the whole cell's if it is there since this part of its time: others come and go in a loop.
_OF_CELL = 0.8
#: Of what a pace is made: less says little.
_LEAST_MS = 60_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """So much of it is done, in steps of its own."""

    done: float
    of: int


def read(text: str, ran_ms: int) -> Progress | None:
    """What the end of an output says of the whole cell; None where it says nothing."""
    bars = [(_ms(one["ran"]), one) for one in _BAR.finditer(text)]
    longest = max(bars, key=lambda one: (one[0], one[1].start()), default=None)
    if longest is not None and longest[0] >= ran_ms * _OF_CELL - _LEAST_MS:
        return _not_over(Progress(done=int(longest[1]["done"]), of=int(longest[1]["of"])))
    epochs = _EPOCH.findall(text)
    if not epochs:
        return None
    number, of = map(int, epochs[-1])
    # Some say it when an epoch begins, some when it ends.
    return _not_over(Progress(done=number - 0.5, of=of)) if number > 0 else None


def _not_over(found: Progress) -> Progress | None:
    """What a cell does after its bar, nobody knows."""
    return found if 0 <= found.done < found.of else None


def _ms(clock: str) -> int:
    seconds = 0
    for part in clock.split(":"):
        seconds = seconds * 60 + int(part)
    return seconds * 1000


@dataclass(kw_only=True, slots=True)
class Pace:
    """How fast one cell goes, from the steps that were seen to be done."""

    _first: tuple[int, Progress] | None = None
    _last: tuple[int, Progress] | None = None
    _newest: Progress | None = None

    def see(self, progress: Progress | None, at_ms: int) -> None:
        """What it says now. Only a change has a moment; another bar begins anew."""
        before, self._newest = self._newest, progress
        if before is None or progress is None or progress == before:
            return
        if self._first is None or progress.of != before.of or progress.done < before.done:
            self._first = self._last = None
        if progress.of == before.of and progress.done > before.done:
            self._last = (at_ms, progress)
            self._first = self._first or self._last

    def left_ms(self, now_ms: int) -> int | None:
        """How long it goes on at this pace; None where that cannot be said."""
        if self._first is None or self._last is None or self._newest != self._last[1]:
            return None
        (from_ms, first), (to_ms, last) = self._first, self._last
        if to_ms - from_ms < _LEAST_MS:
            return None
        step_ms = (to_ms - from_ms) / (last.done - first.done)
        if now_ms - to_ms > max(_LEAST_MS, 2 * step_ms):
            # It went on differently, or stands.
            return None
        return max(0, round((last.of - last.done) * step_ms) - (now_ms - to_ms))
