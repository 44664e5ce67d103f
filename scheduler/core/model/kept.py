"""What is kept of processes: of those that are stopped, what is saved; of those that ran, how fast they were."""

from __future__ import annotations

from dataclasses import dataclass

#: Saved processes of all jobs of one user together, where they run.
MAX_IMAGE_BYTES = 32 << 30


def on_idle_of(chosen: str, allowed: tuple[str, ...]) -> str:
    """What its user chose, where the pool still allows it, else the first that the pool allows."""
    return chosen if chosen in allowed else allowed[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How fast an attempt is by its own progress reports: its first, and its newest."""

    from_step: int
    from_ms: int
    step: int
    at_ms: int
    #: Of the newest report: a script whose steps are larger with more workers needs fewer of them.
    total_steps: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptKernels:
    """Whole kernels that can be woken, or variables of others, as a stopped server said itself."""

    kernels: int
    kernel_bytes: int
    variables: int
    variable_bytes: int
    #: Variables that could not be stored.
    variables_lost: int
    #: UTC; later it is removed.
    until_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Hibernation:
    """How an attempt runs: in a tree that can be saved, or why not; and whether it was woken."""

    #: Why its processes cannot be saved at a stop, as a clause; empty = they can be.
    hindrance: str = ""
    #: Saving and waking take so long together, if it uses all the memory that it asks for.
    cost_ms: int = 0
    #: Number of the attempt from whose image it was woken; None = its command was started.
    woken_from: int | None = None
    #: Why the image that was there could not be woken; empty = there was none, or it was woken.
    not_woken: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessImage:
    """The processes of an attempt that has ended, saved whole; its user's own file."""

    user: str
    size_bytes: int
    #: How long writing it took.
    save_ms: int
    #: Of its description, which holds checksums of all its files.
    sha256: str
    #: They had been told by a signal that they would have to leave.
    told: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class HibernationAbility:
    """What the self-test of a node found when its agent or scheduler started."""

    able: bool
    #: Why not, as a clause; empty where it can.
    because: str = ""
    #: What was measured on its disk.
    save_mib_per_s: int = 0
    wake_mib_per_s: int = 0
