"""Files of a running attempt away from its notebook: what it fetches, what it hands over."""

from __future__ import annotations

from pydantic import Field

from gpucommons.scheduler.models.fields import Line, Model, RelativePath, View

#: Of one file; larger results go in several.
MAX_FILE_BYTES = 1 << 40


class FileSize(Model):
    """A file to be uploaded."""

    path: RelativePath
    size_bytes: int = Field(strict=True, ge=0, le=MAX_FILE_BYTES)


class UploadRequest(Model):
    """Ask for links for some files of a folder of the attempt's."""

    #: ``results``, ``work`` or a complete checkpoint: ``checkpoints/step-5``, or ``checkpoints/step-5.7``, where the
    #: last number tells those of one step from each other.
    folder: RelativePath
    files: list[FileSize] = Field(min_length=1, max_length=1000)


class UploadView(View):
    """Where one file goes: a link for each part of ``part_bytes``, the last one shorter."""

    path: str
    links: list[str]
    part_bytes: int


class UploadList(View):
    """Links for the files asked about, in their order."""

    files: list[UploadView]
    #: What each upload has to say besides its bytes.
    headers: dict[str, str] = {}


class DownloadView(View):
    """One file, its parts in order."""

    path: str
    size_bytes: int
    links: list[str]


class SnapshotInput(View):
    """The files that the job runs from; without a link they come from ``attempt/snapshot``."""

    sha256: str
    link: str | None = None
    max_unpacked_bytes: int


class CheckpointInput(View):
    """The checkpoint to resume from; without files it lies on the shared volume already."""

    path: str
    size_bytes: int
    sha256: str
    files: list[DownloadView] | None = None


class KeptReport(Model):
    """At its end: what the attempt has handed over of its working folder."""

    files: int = Field(strict=True, ge=0, le=2**31)
    size_bytes: int = Field(strict=True, ge=0, le=2**53)


class TreeReport(Model):
    """At its start: whether the attempt's processes can be saved, and whether they were woken; while it
    runs, the same again with their memory.
    """

    #: Why they cannot be saved, as a clause; empty = they can be.
    hindrance: Line = ""
    cost_ms: int = Field(default=0, strict=True, ge=0, le=2**53)
    #: Number of the attempt that was saved.
    woken_from: int | None = Field(default=None, strict=True, ge=1, le=2**31)
    #: Why what was saved could not be woken.
    not_woken: Line = ""
    #: What saving them would write now; nothing = it was not looked at.
    memory_mib: int | None = Field(default=None, strict=True, ge=0, le=2**40)
    #: As it was measured where they are saved; 0 = not known.
    save_mib_per_s: int = Field(default=0, strict=True, ge=0, le=2**31)


class SavingView(View):
    """Whether the attempt's processes are saved in place of SIGTERM."""

    saves: bool
    #: What an image may take: the rest of its user's limit, shared with whoever saves at once.
    max_bytes: int = 0


class AttemptInputs(View):
    """Everything an attempt needs before its command runs."""

    snapshot: SnapshotInput | None = None
    #: What earlier attempts changed in the working folder; None where it lies on a shared volume.
    work: list[DownloadView] | None = None
    checkpoint: CheckpointInput | None = None
