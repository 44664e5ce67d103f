"""How a stopped job goes on, as values: saved processes, drills and badges, what users chose, how fast it ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from gpucommons.scheduler.core.model.evolving import quick

#: Stands for code, command, environment and team; :mod:`.going_on.badges` makes it.
BadgeKey = NewType("BadgeKey", str)
#: Of a pool or a policy: whether jobs are stopped on purpose, to see whether they go on.
ON, OFF = "on", "off"

#: Saved processes of all jobs of one user together, where they run.
MAX_IMAGE_BYTES = 32 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much the workers of a job's first role ask for, and how many they are."""

    milli_gpu: int
    workers: int
    cpu_milli: int
    memory_mib: int
    min_workers: int | None = None
    max_workers: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Resized:
    """A job's size was changed while it waited: from what was submitted to what it asks for now."""

    submitted: Size
    now: Size


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
    #: Of the disk that it would be saved on; 0 = not known.
    save_mib_per_s: int = 0
    wake_mib_per_s: int = 0
    #: What saving it would have written when that was looked at last; None = nobody has looked yet.
    memory_mib: int | None = None
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


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Drill:
    """A stop after which it is seen whether its job goes on where it was."""

    #: Number of the attempt that was stopped.
    attempt: int
    #: The way to go on that held then; *working folder* where it went on although nothing held.
    way: str
    begun_ms: int
    #: When that attempt had ended.
    stopped_ms: int
    #: It was stopped for that alone; else whatever stopped it shows as much.
    on_purpose: bool
    #: Where it has to go on, in what it counts; None = where its processes were.
    step: int | None = None
    unit: str = ""
    #: How long the stopped attempt had taken to get there; None = not known.
    reached_in_ms: int | None = None
    #: Where it began again, and went on or not; None = not known, as with files of its own.
    went_on_step: int | None = None
    #: From the stop until it went on, without the time in line between.
    took_ms: int | None = None
    #: Why it did not, as a clause; empty = it did, or it is not known.
    failed: str = ""
    #: Its job was stopped on purpose, then or before.
    tested: bool = False
    #: It runs again, and what it told does not show where it began.
    untold: bool = False
    #: It began again before the step that it had, and told one too soon for one who began at its start.
    from_files: bool = False

    @property
    def pending(self) -> bool:
        """It is still to be seen."""
        return self.took_ms is None and not self.failed and not self.untold

    @property
    def passed(self) -> bool:
        """It went on at or after the step that it had."""
        return self.took_ms is not None and not self.failed

    @property
    def confines(self) -> bool:
        """Its job runs only inside its team's guarantee from now on."""
        return self.on_purpose and bool(self.failed)


@dataclass(frozen=True, kw_only=True, slots=True)
class Badge:
    """Safe to borrow: this code was stopped, and went on."""

    team: str
    #: Name of the job that showed it.
    job: str
    way: str
    given_ms: int
    took_ms: int
    step: int | None = None
    unit: str = ""
