"""Why something waits or was refused: a class for programs, a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ReasonClass(StrEnum):
    """Why something waits or was refused; open for more."""

    SHARE = "share"
    LIMIT = "limit"
    KIND = "kind"
    FRAGMENTATION = "fragmentation"
    GANG = "gang"
    POLICY = "policy"
    DEPENDENCY = "dependency"
    MISCONFIGURED = "misconfigured"
    #: Its devices are being cleared; it is next.
    DRAINING = "draining"
    #: Waits out its back-off after a loss or failure, or its schedule.
    BACKOFF = "backoff"
    PAUSED = "paused"
    #: It would fit on nodes that take nothing new now.
    NODES = "nodes"
    #: Each of its pools costs more than it, or its team, pays.
    PRICE = "price"
    #: It asks for more than its quota will ever let it have.
    NEVER = "never"


#: Who waits for one of these does not start however much is free: it keeps nobody from anything.
CANNOT_START = frozenset(
    {
        ReasonClass.KIND,
        ReasonClass.MISCONFIGURED,
        ReasonClass.POLICY,
        ReasonClass.NODES,
        ReasonClass.PRICE,
        ReasonClass.NEVER,
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """One sentence for people, one class for programs, and the smallest change that would help."""

    code: ReasonClass
    #: "Needs 4 GPUs on one node; 3 are free."
    text: str
    #: "Would start now with 2 GPUs." None where nothing small would help.
    unblock: str | None = None
    #: The GPUs per worker with which it would start now, in milli-GPU; None where none would.
    startable_milli_gpu: int | None = None
