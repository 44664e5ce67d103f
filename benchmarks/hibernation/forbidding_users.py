"""Runs a command where users may make no user namespaces, and root may: as AppArmor has it on Ubuntu.

``python -m benchmarks.hibernation.forbidding_users COMMAND…``, for this command and what it starts alone.
A filter of system calls sees no account, so it asks a small process beside, which looks who calls. It is
no wall, as who called may be another one a moment later: it is there to play on a machine that forbids
nothing. Linux 5.0 or newer.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import os
import platform
import signal
import socket
import struct
import sys
from pathlib import Path

from benchmarks.hibernation import forbidding
from gpucommons.gpu.hibernation.inside import calls

#: `seccomp(2)`: its number by architecture, what is to be done, and that others are to be asked.
_CALL = {"x86_64": 317, "aarch64": 277}
_SET_FILTER, _NEW_LISTENER = 1, 8
#: `ioctl` of the listener: the next call, and the answer to one.
_NEXT, _ANSWER = 0xC0502100, 0xC0182101
_QUESTION_BYTES, _GOES_ON = 80, 1


def forbid_to_users() -> None:
    """From here on no process but root's makes a user namespace, as far as it comes from this one.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    own, beside = socket.socketpair()
    with own, beside:
        if not os.fork():
            own.close()
            _answer(beside)
        listener = _listener()
        own.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
        os.close(listener)
        own.recv(1)


def _listener() -> int:
    program, _kept = forbidding.program(forbidding.ASK)
    libc = ctypes.CDLL(None, use_errno=True)
    found = libc.syscall(_CALL[platform.machine()], _SET_FILTER, _NEW_LISTENER, program)
    if found < 0:
        raise OSError(ctypes.get_errno(), "user namespaces cannot be forbidden here")
    return int(found)


def _answer(line: socket.socket) -> None:
    """Who is asked; ends with the process that began it."""
    try:
        calls.die_with_parent(signal.SIGKILL)
        _, ancillary, _, _ = line.recvmsg(1, socket.CMSG_SPACE(4))
        (listener,) = array.array("i", ancillary[0][2])
        line.sendall(b".")
        while True:
            question = bytearray(_QUESTION_BYTES)
            fcntl.ioctl(listener, _NEXT, question)
            number, pid = struct.unpack_from("QI", question)
            refused, flags = (0, _GOES_ON) if _is_root(pid) else (-errno.EPERM, 0)
            try:
                fcntl.ioctl(listener, _ANSWER, struct.pack("QqiI", number, 0, refused, flags))
            except FileNotFoundError:
                continue  # whoever called has ended
    finally:
        os._exit(0)


def _is_root(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return False
    effective = next(line.split()[2] for line in text.splitlines() if line.startswith("Uid:"))
    return effective == "0"


def main(command: list[str]) -> None:
    """Become the command."""
    forbid_to_users()
    os.execvp(command[0], command)  # noqa: S606 - a list, no shell


if __name__ == "__main__":
    main(sys.argv[1:])
