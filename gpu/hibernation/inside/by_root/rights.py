"""The rights that a tree's namespaces, mounts and CRIU need, and where they come from.

Usually from a user namespace that the user makes: they count only there. Where the machine forbids
those, root starts the tree, and this process becomes the user at once. It may use four capabilities
then, and has none of them in use while it looks at anything of the user's. Three are gone before a
program of the user's runs or an image is opened. What PID 1 keeps, and gives to CRIU alone, is
CAP_CHECKPOINT_RESTORE. That one counts on the whole machine, so nothing that wakes may have it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpucommons.gpu.hibernation.inside import calls
from gpucommons.gpu.hibernation.inside.by_root import namespace
from gpucommons.gpu.hibernation.inside.tree_settings import Account, TreeSettings

_OF_NAMESPACE = (calls.CHECKPOINT_RESTORE, calls.SYS_PTRACE)
_OF_MACHINE = (calls.CHECKPOINT_RESTORE,)
#: Until the tree stands: its namespaces, clock and mounts are made, and the bounding set is emptied.
_AT_START = (*_OF_MACHINE, calls.SETPCAP, calls.SYS_ADMIN, calls.SYS_TIME)
#: Of root's program above a server, and all that it starts: to become its user, and to signal them.
_ABOVE_SERVER = (*_AT_START, calls.SETUID, calls.SETGID, calls.KILL)
#: Each takes far less than what starts and ends in between.
_MOST_LOOKS = 1000
#: Of threads that have ended, and wait for nothing but to be asked how: they never run again.
_ENDED = ("Z", "X")
_SETS = ("CapInh", "CapPrm", "CapEff", "CapAmb", "CapBnd")


class NotAllowed(Exception):
    """Root cannot start a tree for this account, or not here; with a sentence."""


def become(account: Account) -> None:
    """Turn root into this user, who may use what a tree's start needs, and has nothing of it in use.

    Raises
    ------
    NotAllowed
        Where that is no ordinary user, or there are no such capabilities.
    OSError
        When the kernel refuses.
    """
    if os.geteuid() != 0:
        message = "Only root can start a tree for somebody else."
        raise NotAllowed(message)
    if account.uid <= 0 or account.gid <= 0:
        message = "What runs as root is saved in a user namespace only: else it would wake as root."
        raise NotAllowed(message)
    calls.no_new_privileges()
    # In a namespace of its own it has all of them, and they count there alone.
    if not namespace.enter(account) and not all(map(calls.may_have, _AT_START)):
        message = (
            "Without user namespaces saving takes Linux 5.9 or newer, and a root that has"
            " CAP_CHECKPOINT_RESTORE, CAP_SYS_ADMIN, CAP_SYS_TIME and CAP_SETPCAP."
        )
        raise NotAllowed(message)
    os.setgroups(account.groups)
    os.setresgid(account.gid, account.gid, account.gid)
    calls.keep_over_change_of_user()
    os.setresuid(account.uid, account.uid, account.uid)
    calls.set_capabilities(permitted=_AT_START, effective=())


def keep_for_starting() -> None:
    """Of root's program above a server: nothing that would open a file which root's rules close.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    calls.no_new_privileges()
    calls.bound_to(_ABOVE_SERVER)
    kept = calls.permitted() & set(_ABOVE_SERVER)
    calls.set_capabilities(permitted=kept, effective=kept)


@contextmanager
def in_use(*capabilities: int) -> Iterator[None]:
    """Use these of the given rights for a moment.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    held = calls.permitted()
    calls.set_capabilities(permitted=held, effective=capabilities)
    try:
        yield
    finally:
        calls.set_capabilities(permitted=held, effective=())


def keep_until_started() -> None:
    """The namespaces and mounts stand; only the bounding set has still to be emptied.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    calls.set_capabilities(permitted=(*_OF_MACHINE, calls.SETPCAP), effective=())


def keep_for_criu() -> None:
    """What PID 1 has from here on. Nothing of it is handed on by ``exec``, unless that is asked for.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    # In this order: what may be inherited must be in the bounding set when that is said.
    calls.set_capabilities(
        permitted=calls.permitted(), effective=(calls.SETPCAP,), inheritable=_OF_MACHINE
    )
    calls.bound_to(())
    calls.set_capabilities(permitted=_OF_MACHINE, effective=_OF_MACHINE, inheritable=_OF_MACHINE)


def hand_on(settings: TreeSettings) -> None:
    """Of the process that executes CRIU: keep what that needs.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    # All of them would make CRIU change to users that are not mapped in a user namespace.
    calls.keep_only(_OF_NAMESPACE if settings.account is None else _OF_MACHINE)


def let_go(settings: TreeSettings) -> None:
    """Give up every right, for this process and whatever it executes.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    if settings.account is not None:
        calls.set_capabilities(permitted=calls.permitted(), effective=(calls.SETPCAP,))
    calls.keep_only(())


def any_of(numbers: Callable[[], Iterable[int]]) -> bool:
    """Whether a thread of these processes has a right, or could gain one; also where that stays unknown.

    One that is gone when it is looked at may have left a child behind, so all are looked for again.
    """
    for _ in range(_MOST_LOOKS):
        try:
            return any(not _is_without(status) for pid in numbers() for status in _threads(pid))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return True


def _threads(pid: int) -> Iterator[Path]:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        yield thread / "status"


def _is_without(status: Path) -> bool:
    text = status.read_text(encoding="utf-8", errors="replace")
    found = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    if found["State"].startswith(_ENDED):
        return True
    return not any(int(found[name], 16) for name in _SETS) and found["NoNewPrivs"] == "1"
