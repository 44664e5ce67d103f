"""What other trainings' points say of the links of a kind of GPU, for one of which little is known.

Another project speaks with one training, however many it has; old points fade, and trainings that
were seen at one size alone say nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpucommons.scheduler.advisor.scaling import Believed, Seen, believed_from, scaling_of

#: Trainings that are fitted, those with most points first, and points of each.
_MOST_TRAININGS, _MOST_POINTS = 8, 60
#: Fewer points leave the form open.
_FEWEST = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """A training whose scaling was seen."""

    project: str
    #: Which training it is: points of one name are fitted together.
    name: str


def believed_of(asked: Named, points: Mapping[Named, Sequence[Seen]]) -> Believed | None:
    """Beliefs about a training from the others' points; None where too few tell anything."""
    telling = {
        name: seen
        for name, seen in points.items()
        if name != asked and len(seen) >= _FEWEST and len({one.gpus for one in seen}) > 1
    }
    heard: list[Sequence[Seen]] = []
    spoke: set[str] = set()
    for name in sorted(telling, key=lambda one: -len(telling[one])):
        if name.project == asked.project or name.project not in spoke:
            heard.append(telling[name])
            spoke.add(name.project)
    if not heard:
        return None
    return believed_from([scaling_of(few(seen)) for seen in heard[:_MOST_TRAININGS]])


def few(seen: Sequence[Seen], most: int = _MOST_POINTS) -> list[Seen]:
    """Some of many points, evenly."""
    return list(seen[:: max(1, len(seen) // most)])
