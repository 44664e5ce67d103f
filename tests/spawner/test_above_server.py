"""Root's program above a server: when the hub offers it, and what the hub's child becomes."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpucommons.gpu.hibernation.above_server import standing
from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.inside.tree_settings import Account as TreeAccount
from gpucommons.gpu.hibernation.self_test import Ability
from gpucommons.spawner import above_server
from gpucommons.spawner.kernel_trial import Account, KernelTrials
from gpucommons.spawner.lease import LeaseMixin
from gpucommons.spawner.local import GpuLocalSpawner

as_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root stands above a server"
)
ADA = Account(environ=(("HOME", "/home/ada"),), uid=2001, gid=2001, groups=(2001, 7))


def trials(*outcomes: bool) -> KernelTrials:
    left = list(outcomes)

    async def trial(_account: Account) -> bool:
        return left.pop(0)

    return KernelTrials(trial, page_waits_s=60)


def _is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())


@pytest.fixture
def criu(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Criu(command=("/usr/sbin/criu",), version="4.2")
    monkeypatch.setattr(above_server, "find_criu", lambda _environ: found)


@as_root
@pytest.mark.usefixtures("criu")
@pytest.mark.parametrize(
    ("account", "alone", "by_root"),
    [
        (None, False, True),
        (Account(environ=()), False, True),
        (ADA, True, True),
        (ADA, False, False),
    ],
)
async def test_where_it_is_not_needed_or_does_not_work_there_is_no_program(
    account: Account | None, alone: bool, by_root: bool, tmp_path: Path
) -> None:
    found = await above_server.above(
        account, Path("/home/ada"), alone=trials(alone), by_root=trials(by_root), base=tmp_path
    )
    assert found is None
    assert _is_empty(tmp_path)


@as_root
@pytest.mark.usefixtures("criu")
async def test_the_program_gets_its_user_home_and_roots_criu(tmp_path: Path) -> None:
    found = await above_server.above(
        ADA, Path("/home/ada"), alone=trials(False), by_root=trials(True), base=tmp_path
    )
    assert found is not None
    said = dict(zip(found.words[4::2], found.words[5::2], strict=True))
    assert said["--account"] == "2001:2001:2001,7"
    assert said["--home"] == "/home/ada"
    assert said["--criu"] == '["/usr/sbin/criu"]'
    assert found.place.stat().st_uid == 2001
    assert found.place.stat().st_mode & 0o777 == 0o600
    assert found.place.parent.stat().st_uid == 0
    found.discard()
    assert _is_empty(tmp_path)


async def test_a_hub_without_root_or_criu_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(above_server, "find_criu", lambda _environ: None)
    assert await above_server.is_offered(ADA, trials(True)) is False
    monkeypatch.setattr(above_server, "find_criu", lambda _environ: Criu(command=(), version=""))
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert await above_server.is_offered(ADA, trials(True)) is False


@pytest.mark.parametrize(
    ("traits", "may"),
    [
        ({"kernels_by_root": True}, True),
        ({}, True),
        ({"kernels_by_root": False}, False),
        ({"kernels_by_root": True, "shared_account": True}, False),
        ({"kernels_by_root": True, "environment": {"GPUCOMMONS_HIBERNATE_KERNELS": "0"}}, False),
        ({"kernels_by_root": True, "cmd": ["bwrap", "jupyterhub-singleuser"]}, False),
        ({"kernels_by_root": True, "shell_cmd": ["sh", "-c"]}, False),
    ],
)
def test_a_server_that_its_admin_starts_in_another_way_or_without_it_has_no_program(
    traits: dict[str, object], may: bool
) -> None:
    user = SimpleNamespace(name="ada")
    one = GpuLocalSpawner(user=user, **{"shared_account": False, **traits})
    assert one._may_stand_above() is may


@as_root
@pytest.mark.usefixtures("criu")
@pytest.mark.parametrize(
    ("kernels_by_root", "machine_wide", "has_one"),
    [(None, False, True), (None, True, False), (True, True, True), (True, False, True)],
)
async def test_a_right_that_counts_on_the_whole_machine_is_an_admins_choice(
    kernels_by_root: bool | None,
    machine_wide: bool,
    has_one: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Ability(can_hibernate=True, by_root=True, machine_wide=machine_wide)
    monkeypatch.setattr(above_server, "self_test_for_users", lambda *_: found)
    assert await above_server.trials_of(kernels_by_root)._trial(ADA) is has_one


@as_root
async def test_what_a_killed_program_left_goes_with_the_next_start(tmp_path: Path) -> None:
    account = TreeAccount(uid=2001, gid=2001)
    killed = standing.prepare(account, Path("/home/ada"), (), tmp_path)
    lives = standing.prepare(account, Path("/home/ada"), (), tmp_path)
    assert killed.place.exists()
    killed.let_go()

    third = standing.prepare(account, Path("/home/ada"), (), tmp_path)

    assert [killed.place.exists(), lives.place.exists(), third.place.exists()] == [
        False,
        True,
        True,
    ]
    for one in (lives, third):
        one.discard()


@pytest.mark.parametrize(("status", "looks"), [(None, 0), (-9, 1)])
async def test_a_server_that_is_gone_is_looked_for_in_what_its_killed_program_left(
    status: int | None, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    async def end_left() -> None:
        seen.append(1)

    async def polled(_self: object) -> int | None:
        return status

    monkeypatch.setattr(above_server, "end_left", end_left)
    monkeypatch.setattr(LeaseMixin, "poll", polled)
    one = GpuLocalSpawner(user=SimpleNamespace(name="ada"), shared_account=False)
    assert await one.poll() == status
    assert len(seen) == looks


@as_root
@pytest.mark.parametrize("code", [0, 7])
def test_the_hub_knows_the_program_as_its_server_and_the_server_ends_with_it(
    tmp_path: Path, code: int
) -> None:
    nobody = pwd.getpwnam("nobody")
    one = GpuLocalSpawner(user=SimpleNamespace(name="nobody"), shared_account=False)
    account = TreeAccount(uid=nobody.pw_uid, gid=nobody.pw_gid)
    one._above = standing.prepare(account, Path("/nonexistent"), (), tmp_path)
    # Of a program that is just being started it is empty for a moment.
    looks = "c=; until [ \"$c\" ]; do c=$(tr '\\0' ' ' < /proc/$PPID/cmdline); done; echo \"$c\""
    shows = f"id -u; {looks}; echo $PPID $$; exit {code}"
    with subprocess.Popen(
        ["/bin/sh", "-c", shows],
        preexec_fn=one.make_preexec_fn("nobody"),  # noqa: PLW1509 - one thread
        cwd="/",
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as server:
        assert server.stdout is not None
        uid, program, pids = server.stdout.read().splitlines()
        assert server.wait(60) == code
    assert uid == str(nobody.pw_uid)
    assert str(standing.LAUNCH) in program
    assert int(pids.split()[0]) == server.pid
    one._above.let_go()
    standing.end_left(tmp_path)
    assert _is_empty(tmp_path)
