"""Where users may make no user namespaces: root's program above a server, so that its kernels are kept.

The hub offers it where it is root, its users have accounts of their own, an account could not save a
process alone, and root's own trial did. What it does is said in ``gpu.hibernation.above_server``.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from functools import partial
from pathlib import Path

from gpucommons.gpu.hibernation.above_server import standing
from gpucommons.gpu.hibernation.above_server.standing import Above, prepare
from gpucommons.gpu.hibernation.criu import VARIABLE, Criu, find_criu
from gpucommons.gpu.hibernation.inside.tree_settings import Account as TreeAccount
from gpucommons.gpu.hibernation.self_test import self_test_for_users
from gpucommons.spawner.kernel_trial import TRIALS, Account, KernelTrials

#: How often a start asks for an outcome that takes its time; each waits as long as a page does.
_ASKS = 5


async def _try_by_root(account: Account, *, machine_wide: bool) -> bool:
    criu = _criu(account)
    if criu is None:
        return False
    return await asyncio.to_thread(_passes, criu, machine_wide)


def _passes(criu: Criu, machine_wide: bool) -> bool:
    with tempfile.TemporaryDirectory(prefix="gpucommons-trial-") as place:
        # Its small process is another account's.
        Path(place).chmod(0o755)
        ability = self_test_for_users(criu, Path(place))
    return ability.can_hibernate and ability.by_root and (machine_wide or not ability.machine_wide)


def _criu(account: Account) -> Criu | None:
    """Root's own choice, as it is run with a capability; an admin may name it for the servers."""
    named = {name: value for name, value in account.environ if name == VARIABLE}
    return find_criu({**os.environ, **named})


#: One hub has one machine. The second is for admins who accept a right that counts on all of it.
BY_ROOT = KernelTrials(partial(_try_by_root, machine_wide=False))
BY_RIGHT_OF_MACHINE = KernelTrials(partial(_try_by_root, machine_wide=True))


def trials_of(kernels_by_root: bool | None) -> KernelTrials:
    """What an admin chose: True accepts a right that counts on the whole machine."""
    return BY_RIGHT_OF_MACHINE if kernels_by_root else BY_ROOT


async def is_offered(account: Account, trials: KernelTrials = BY_ROOT) -> bool | None:
    """Whether root can start what an account is to save that cannot save alone; None = not known yet."""
    if account.uid is None or os.geteuid() != 0 or _criu(account) is None:
        return False
    named = tuple(each for each in account.environ if each[0] == VARIABLE)
    return await trials.outcome(Account(environ=named))


async def above(  # noqa: PLR0913 - who, where and what was tried before
    account: Account | None,
    home: Path,
    *,
    alone: KernelTrials = TRIALS,
    by_root: KernelTrials = BY_ROOT,
    base: Path | None = None,
    group: str | None = None,
) -> Above | None:
    """The program for a server that starts now, in this control group; None where there is none to be."""
    if account is None or account.uid is None or account.gid is None:
        return None
    criu = _criu(account)
    if criu is None or os.geteuid() != 0 or not await _is_needed(account, alone, by_root):
        return None
    tree = TreeAccount(uid=account.uid, gid=account.gid, groups=account.groups)
    return prepare(tree, home, criu.command, base or _base(), group)


async def end_left() -> None:
    """End servers whose program was killed: one that drops its signals goes on without it."""
    if os.geteuid() == 0:
        await asyncio.to_thread(standing.end_left, _base())


def _base() -> Path:
    """Where sockets of root's programs lie: containers of a user's see `/tmp` more often than this."""
    found = Path("/run")
    return found if os.access(found, os.W_OK) else Path(tempfile.gettempdir())


async def _is_needed(account: Account, alone: KernelTrials, by_root: KernelTrials) -> bool:
    for _ in range(_ASKS):
        can_alone = await alone.outcome(account)
        if can_alone:
            return False
        offered = None if can_alone is None else await is_offered(account, by_root)
        if offered is not None:
            return offered
    return False
