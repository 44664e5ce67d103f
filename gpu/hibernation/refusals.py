"""CRIU's log, in one plain sentence that names what stood in the way. Pure.

The first error is the cause; those after it are its consequences.
"""

from __future__ import annotations

import errno
import re

_MIB = 1 << 20

#: What CRIU says, and what it means for whoever ran the program.
_SAVING = (
    (r"Connected TCP socket|tcp.*connected", "It holds a network connection."),
    (
        r"External socket is used|unix.*external|Can't dump half of",
        "It holds a socket to a program outside, for example a database.",
    ),
    (r"io_uring|\[io_uring\]", "It uses io_uring."),
    (r"userfaultfd", "It uses userfaultfd."),
    (r"SysVIPC|sysvipc|SysV shmem|shmem.*SYSV", "It uses System V shared memory."),
    (r"inotify|fanotify", "It watches files for changes (inotify)."),
    (r"Nested user namespace|user namespace", "It made a user namespace of its own."),
    (r"suspending seccomp|seccomp", "It installed a system call filter (seccomp) of its own."),
    (
        r"Can't open mapped \[(?P<what>[^\]]*) \(deleted\)\]|mapped.*\(deleted\)",
        "It has a file in memory that was removed: {what}.",
    ),
    (
        r"Can't dump (?:\w+ )?(?:chr|char|device)|can't dump.*(?P<what>/dev/\S+)|Unknown shit",
        "It holds a device: {what}.",
    ),
    (r"No space left on device|ENOSPC", "The disk is full."),
    (r"Disk quota exceeded", "Your quota on this disk is used up."),
    (r"Timeout reached|timed out", "Its processes could not be made to stand still in time."),
    (r"Can't lookup mount", "It holds a file of another mount: {what}."),
    (r"ghost file|ghost-limit|Can't dump ghost", "It holds a removed file above 1 GiB."),
    (r"Unable to interrupt task|Unable to seize", "One of its processes cannot be stopped."),
    (r"ptrace", "It is watched by a debugger."),
)
_WAKING = (
    (
        r"File (?P<what>\S+) has bad size",
        "{what} was open, and it changed since.",
    ),
    (r"Can't open file (?P<what>\S+)", "{what} was open, and it cannot be opened now."),
    (r"Can't bind inet socket|Address already in use", "A port that it listens on is taken."),
    (r"Can't.*pid|set_tid|Unable to fork|File exists", "A process number that it needs is taken."),
    (r"No space left on device|Cannot allocate memory|ENOMEM", "There is not enough memory."),
    (r"CPU|cpuinfo|xsave|fpu", "This machine's processor is another one."),
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
