"""The driver's codes, in one plain sentence that names what stands in the way. Pure.

The codes are those of cuda.h; what each is seen for is from NVIDIA's documents and from reports to
NVIDIA/cuda-checkpoint, whose numbers stand in brackets.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence

from gpucommons.gpu.parking.driver import Code
from gpucommons.gpu.parking.processes import Circumstances

NO_DRIVER = "There is no driver of NVIDIA here."
NO_GPU_MEMORY = "It holds no GPU memory."
OF_ANOTHER_USER = "It belongs to another user."
UNUSABLE = "The driver has left it unusable: it has to be restarted."
_MIB = 1 << 20
_MIG = "Its GPU is a part of a card (MIG), and the driver cannot park that."

#: Call (empty: any), code, what must have been seen for it, sentence; the first that fits.
_KNOWN: tuple[tuple[str, int, str, str], ...] = (
    ("init", Code.NO_DEVICE, "", "No GPU can be seen from here."),
    ("init", Code.STUB_LIBRARY, "", "The libcuda.so.1 here is a stub of a toolkit and no driver."),
    ("init", Code.SYSTEM_NOT_READY, "", "NVIDIA's driver is not ready yet."),
    ("lock", Code.NOT_READY, "", "Its work on the GPU did not end within {lock_s:.0f} s."),
    ("", Code.OUT_OF_MEMORY, "mig", _MIG),  # [42]
    ("", Code.NOT_SUPPORTED, "mig", _MIG),
    ("", Code.NOT_SUPPORTED, "mps", "It computes through MPS, and the driver cannot park that."),
    (
        "checkpoint",
        Code.NOT_SUPPORTED,
        "aarch64",
        "The driver of this architecture cannot park anything.",  # [51]
    ),
    (
        "checkpoint",
        Code.NOT_SUPPORTED,
        "",
        "It uses memory that the driver cannot park: managed memory, or memory that it shares with "
        "another process.",
    ),
    (
        "restore",
        Code.OUT_OF_MEMORY,
        "",
        "The GPU had no room for its memory, and the driver gives it no second try.",  # [44]
    ),
    ("", Code.INVALID_VALUE, "", NO_GPU_MEMORY),
    ("", Code.ILLEGAL_STATE, "", "Somebody else is parking it just now."),
    (
        "",
        Code.NOT_PERMITTED,
        "",
        "The driver does not permit it; its persistence mode may help (`nvidia-smi -pm 1`, as an "
        "administrator).",  # [25]
    ),
    ("", Code.OUT_OF_MEMORY, "", "There is not enough memory for it."),
    ("", Code.NOT_SUPPORTED, "", "This GPU or its driver cannot."),
)


def of_code(call: str, code: int, seen: Circumstances, *, lock_s: float) -> str:
    """Why the driver refused this call."""
    facts = {
        "",
        seen.architecture,
        *(("mig",) if seen.mig else ()),
        *(("mps",) if seen.mps else ()),
    }
    for known, number, needs, sentence in _KNOWN:
        if known in ("", call) and number == code and needs in facts:
            return sentence.format(lock_s=lock_s)
    return f"The driver failed at it ({call}, code {code})."


def of_crash(number: int) -> str:
    """The process that asked the driver was ended by a signal [58]."""
    name = signal.Signals(number).name if number in signal.valid_signals() else str(number)
    return f"The driver crashed while it was at it ({name})."


def of_patience(seconds: float) -> str:
    """The driver has not answered."""
    return f"The driver did not finish within {seconds:.0f} s."


def another_gpu(wanted: Sequence[str], here: Sequence[str]) -> str:
    """It can only come back to where it was."""
    seen = f"this is {', '.join(here)}" if here else "there is none here"
    return f"It was on {', '.join(wanted)}, and {seen}."


def no_room(needed_bytes: int, free_bytes: int) -> str:
    """Why it was not even begun."""
    return (
        f"Its GPU memory may take {needed_bytes // _MIB} MiB of the machine's own, and "
        f"{max(0, free_bytes) // _MIB} MiB are free."
    )
