"""The last step before a job's command: as its user, with its secrets, never to gain rights again.

The order comes on standard input, so that neither secrets nor tokens are ever seen in a command line.
Secrets are read here, by the user's own account.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
from pathlib import Path

from gpucommons.gpu.linux.signals import hear_all
from gpucommons.scheduler.executors.local.attempt.plan import MAX_REFUSAL_BYTES, PID_ONE
from gpucommons.scheduler.executors.local.attempt.secret_files import read_secret

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_BIND = 0x1000 | 0x4000
#: What a shell answers for a command that does not exist, or cannot be run.
NOT_FOUND, NOT_EXECUTABLE, NOT_READY = 127, 126, 125


def confine(*, dies_with_parent: bool = True) -> None:
    """Die with the supervisor and never gain rights (Linux; elsewhere the supervisor cleans up)."""
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if dies_with_parent:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main() -> int:
    """Become the command."""
    order = json.load(sys.stdin)
    # Closed by a successful exec: whatever is read from it is why there was none.
    os.set_inheritable(order["refusal"], False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    env = dict(order["env"])
    try:
        for variable, name in order["secrets"].items():
            env[variable] = read_secret(Path(order["home"]), name)
        if order.get("places"):
            _show(order["places"])
        os.chdir(order["cwd"])
        env |= _activate(order.get("environment", ""))
    except ValueError as error:
        return _refuse(order["refusal"], str(error), NOT_READY)
    except OSError as error:
        text = f"The folder it starts in cannot be entered: {error.strerror}"
        return _refuse(order["refusal"], text, NOT_READY)
    # Below a PID 1 nothing outlives that, and what is woken has other parents on its way.
    confine(dies_with_parent=order["supervisor"] != PID_ONE)
    if os.getppid() != order["supervisor"]:
        return NOT_READY
    command = order["command"]
    # What cannot be run is tried without a tree, and says itself why.
    if not command or shutil.which(command[0], path=env.get("PATH")) is not None:
        command = [*order.get("prefix", ()), *command]
    # The supervisor is deaf to a terminal's signals; its jobs are not.
    hear_all()
    try:
        os.execvpe(command[0], command, env)  # noqa: S606 - a list, no shell; the job's own command
    except FileNotFoundError:
        return _refuse_unknown(order["refusal"], command[0])
    except OSError as error:
        text = f"{command[0]!r} cannot be run: {error.strerror}"
        return _refuse(order["refusal"], text, NOT_EXECUTABLE)


def _show(places: list[list[str]]) -> None:
    """Let folders be seen under other names by this process and all below it, and by nobody else.

    What a woken process has open bears the names of the attempt in which it began.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    # Only a worker that is woken needs it.
    from gpucommons.gpu.hibernation.inside import calls  # noqa: PLC0415 - see above

    uid, gid = os.getuid(), os.getgid()
    calls.unshare(calls.NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        Path("/proc/self", name).write_text(text)
    calls.unshare(calls.NEWNS)
    calls.make_private()
    for new, old in places:
        calls.mount(new, old, "none", _BIND)


def _activate(environment: str) -> dict[str, str]:
    """Variables of an environment that is still what it was when the job was submitted.

    Raises
    ------
    ValueError
        When it is gone, or a link stands in its place.
    """
    if not environment:
        return {}
    if os.path.realpath(environment) != environment or not os.access(
        f"{environment}/bin/python3", os.X_OK
    ):
        message = (
            f"The environment {environment} has vanished or changed since this job was submitted:"
            " make it again, or submit the job with another one."
        )
        raise ValueError(message)
    if os.path.isdir(f"{environment}/conda-meta"):  # noqa: PTH112 - started with every worker
        return {"CONDA_PREFIX": environment}
    return {"VIRTUAL_ENV": environment}


def _refuse_unknown(descriptor: int, command: str) -> int:
    return _refuse(descriptor, f"there is no command {command!r} in this environment", NOT_FOUND)


def _refuse(descriptor: int, text: str, code: int) -> int:
    """Tell the job's log and the supervisor why the command does not run."""
    sys.stderr.write(f"gpucommons: {text}\n")
    os.write(descriptor, text.encode(errors="replace")[:MAX_REFUSAL_BYTES])
    return code


if __name__ == "__main__":
    sys.exit(main())
