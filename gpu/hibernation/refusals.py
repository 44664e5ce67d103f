"""CRIU's log, in one plain sentence that names what stood in the way. Pure.

The first error is the cause; those after it are its consequences.
"""

from __future__ import annotations

import errno
import re

_MIB = 1 << 20

CALLS_OUTSIDE = (
    "It has called a program outside, for example a database, which has not taken the call yet."
)

WANTS_RIGHTS = "It wants rights that its user has not."
PORT_TAKEN = "A port that it listens on is taken."
#: What CRIU says, and what it means for whoever ran the program.
_SAVING = (
    (r"Connected TCP socket|tcp-established", "It holds a network connection."),
    (
        r"External socket is used|[Uu]nix socket .* external|Can't dump half of",
        "It holds a socket to a program outside, for example a database.",
    ),
    (
        r"on an in-flight socket",
        "It has called one of its own programs and sent data, and the call was not taken yet.",
    ),
    # Of all descriptors io_uring's alone may not be sent through a socket.
    (r"send_fds failed", "It uses io_uring."),
    (r"userfaultfd", "It uses userfaultfd."),
    (r"SysVIPC|SysV shmem", "It uses System V shared memory."),
    (r"fsnotify|inotify|fanotify", "It watches files for changes (inotify)."),
    (r"nested user namespace", "It made a user namespace of its own."),
    (r"seccomp", "It installed a filter of system calls (seccomp) of its own."),
    (
        r"Can't open mapped \[(?P<what>/dev/shm/sem\.\S*) \(deleted\)\]",
        "It uses a semaphore ({what}), as multiprocessing's locks and pools do.",
    ),
    (
        r"Can't open mapped \[(?P<what>\S*) \(deleted\)\]",
        "It uses memory of a file that was removed ({what}).",
    ),
    (r"Can't create link remap for (?P<what>\S+)\.", "It holds {what}, whose name was removed."),
    (r"Can't dump file \d+ of that type \[\d+\] \((?P<what>[^)]*)\)", "It holds {what}."),
    (r"Unknown socket collected", "It holds a socket of a kind that cannot be saved."),
    (r"No space left on device", "The disk is full."),
    (r"Disk quota exceeded", "Your quota on this disk is used up."),
    (r"Timeout reached", "Its processes could not be made to stand still in time."),
    (r"Can't lookup mount", "It holds a file of another mount."),
    (r"[Gg]host file|ghost-limit", "It holds a removed file above 1 GiB."),
    (r"Unseizable|Unable to seize", "It is watched by a debugger."),
    (r"Unable to interrupt task", "One of its processes cannot be stopped."),
)
_WAKING = (
    (r"File (?P<what>\S+) has bad size", "{what} was open, and it changed since."),
    # CRIU leaves out the slash that paths begin with.
    (r"Can't open file /?(?P<what>[^\s:]+)", "/{what} was open, and it cannot be opened now."),
    (r"Can't bind inet socket|Address already in use", PORT_TAKEN),
    (r"[Cc]an't .*connect.*unix|Can't connect .* socket", "A socket that it used is gone."),
    (r"set_tid|Pid \d+ do(?:es)? not match", "A process number that it needs is taken."),
    (r"No space left on device|Cannot allocate memory", "There is not enough memory."),
    (r"cpu:|cpuinfo|xsave", "This machine's processor is another one."),
    (r"Unable to (?:set .* ID|restore capabilities)", WANTS_RIGHTS),
    (r"Permission denied|Operation not permitted", "This system forbids waking it."),
)


def of_save(log: str, *, late: bool) -> str:
    """Why a tree could not be saved."""
    if late:
        return "Writing its memory took longer than there was time."
    return _sentence(log, _SAVING, "It cannot be saved")


def of_wake(log: str, *, late: bool) -> str:
    """Why an image could not be woken."""
    if late:
        return "Waking it took too long."
    return _sentence(log, _WAKING, "It cannot be woken")


def of_disk(error: OSError) -> str:
    """Why the image could not be written."""
    if error.errno == errno.ENOSPC:
        return "The disk is full."
    if error.errno == errno.EDQUOT:
        return "Your quota on this disk is used up."
    return f"The image cannot be written ({error.strerror})."


def disk_too_full(needed_bytes: int, free_bytes: int) -> str:
    """Why saving was not even begun."""
    return (
        f"The disk has {free_bytes // _MIB} MiB free, and saving it may take "
        f"{needed_bytes // _MIB} MiB."
    )


def too_large(needed_bytes: int, most_bytes: int) -> str:
    """Why saving was not even begun."""
    return (
        f"Saving it may take {needed_bytes // _MIB} MiB, and there is time and room for "
        f"{max(0, most_bytes) // _MIB} MiB."
    )


def holds_device(path: str) -> str:
    """What CRIU cannot know the state of."""
    return f"It holds a device: {path}."


def holds_slice(path: str) -> str:
    """A library that is gone, with the slice, when the tree is to be woken."""
    return f"It keeps to its part of a GPU by {path}, which ends with its server."


def holds_gpu_memory(because: str) -> str:
    """Its memory could not leave the GPU."""
    return f"It holds memory of a GPU that could not be saved. {because}"


#: Why GPU memory stays in the machine's own after a wake.
GPU_UNTRIED = "Its GPU memory is kept, but no GPU that can take it back was found here."


def gpu_memory_stays(because: str, *, is_kept: bool) -> str:
    """The driver did not take it back, or was not asked to."""
    return f"Its GPU memory {'is kept' if is_kept else 'did not come back'}. {because}"


def too_many_files(limit: int) -> str:
    """CRIU itself needs some descriptors in each process that it wakes."""
    return f"It has nearly as many files open as it may have ({limit})."


def _sentence(log: str, known: tuple[tuple[str, str], ...], otherwise: str) -> str:
    errors = [line for line in log.splitlines() if "Error" in line]
    for line in errors:
        for pattern, sentence in known:
            found = re.search(pattern, line)
            if found:
                what = found.groupdict().get("what") or _rest(line)
                return sentence.format(what=what)
    if errors:
        return f"{otherwise}: CRIU says “{_rest(errors[0])}”."
    return f"{otherwise}: CRIU ended without a word."


def _rest(line: str) -> str:
    """A line of the log without its time, level and place in the source."""
    return re.sub(r"^.*?Error \([^)]*\): ", "", line).strip().rstrip(".")
