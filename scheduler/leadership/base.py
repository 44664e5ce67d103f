"""What the loop asks of an election, and tells it."""

from __future__ import annotations

from typing import Protocol


class Leadership(Protocol):
    """Whether this replica leads; :class:`gpucommons.scheduler.leadership.election.Election`."""

    def leads(self) -> bool:
        """At this moment."""
        ...

    def resign(self) -> None:
        """Lead no more until elected anew."""
        ...

    def works(self, well: bool) -> None:
        """Whether this replica's last turn came to its end.

        One that cannot reach its store decides nothing: it must not keep others from it for long.
        """
        ...
