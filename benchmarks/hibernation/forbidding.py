"""Runs a command where user namespaces are forbidden: ``python -m benchmarks.hibernation.forbidding COMMAND…``.

As a container's filter of system calls forbids them, and for this command and what it starts alone:
the sysctl and AppArmor's restriction hold for a whole machine. Linux on x86-64 and ARM.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

_NEWUSER = 0x10000000
#: By architecture: its number for filters, and those of `unshare`, `clone` and `clone3`.
_CALLS = {"x86_64": (0xC000003E, 272, 56, 435), "aarch64": (0xC00000B7, 97, 220, 435)}
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_LOAD, _IS, _HAS, _ANSWER = 0x20, 0x15, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
#: What may be done with a call that would make one.
FORBID, ASK = _REFUSE | errno.EPERM, 0x7FC00000
_SET_SECCOMP, _FILTER, _NO_NEW_PRIVS = 22, 2, 38


def forbid() -> None:
    """From here on neither this process nor what it starts makes a user namespace.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    wanted, _kept = program(FORBID)
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0:
        # Root may do without, and its programs with setuid stay what they are.
        libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(_SET_SECCOMP, _FILTER, wanted):
        raise OSError(ctypes.get_errno(), "user namespaces cannot be forbidden here")


def program(answer: int) -> tuple[ctypes.Array[ctypes.c_char], object]:
    """A filter that answers so where a user namespace would be made, and what must be kept beside it."""
    architecture, unshare, clone, clone3 = _CALLS[platform.machine()]
    # Jumps are counted from the next line: how many to pass over if so, and if not.
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IS, 0, 6, architecture),
        (_LOAD, 0, 0, _NUMBER),
        # Its arguments cannot be judged; programs then use `clone`.
        (_IS, 6, 0, clone3),
        (_IS, 1, 0, unshare),
        (_IS, 0, 2, clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_HAS, 1, 0, _NEWUSER),
        (_ANSWER, 0, 0, _ALLOW),
        (_ANSWER, 0, 0, answer),
        (_ANSWER, 0, 0, _REFUSE | errno.ENOSYS),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    return ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code)), 16
    ), code


def main(command: list[str]) -> None:
    """Become the command."""
    forbid()
    os.execvp(command[0], command)  # noqa: S606 - a list, no shell


if __name__ == "__main__":
    main(sys.argv[1:])
