from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from gpucommons.spawner import kernel_trial
from gpucommons.spawner.kernel_trial import Account, KernelTrials, try_as

ADA, BOB = (Account(environ=(("HOME", f"/home/{name}"),)) for name in ("ada", "bob"))


async def test_what_passed_is_believed_and_what_failed_is_tried_again_after_a_minute() -> None:
    now, outcomes, tried = [0.0], {ADA: True, BOB: False}, []

    async def trial(account: Account) -> bool:
        tried.append(account)
        return outcomes[account]

    trials = KernelTrials(trial, now=lambda: now[0])
    assert [await trials.outcome(one) for one in (ADA, BOB)] == [True, False]
    now[0] = 59
    assert [await trials.outcome(one) for one in (ADA, BOB)] == [True, False]
    assert tried == [ADA, BOB]
    now[0], outcomes[BOB] = 60, True
    assert [await trials.outcome(one) for one in (ADA, BOB)] == [True, True]
    assert tried == [ADA, BOB, BOB]


async def test_a_page_does_not_wait_for_a_slow_trial_and_later_ones_know() -> None:
    end = asyncio.Event()

    async def trial(_account: Account) -> bool:
        return await end.wait()

    trials = KernelTrials(trial, page_waits_s=0)
    assert await trials.outcome(ADA) is None
    end.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await trials.outcome(ADA) is True


async def test_where_nothing_can_be_run_as_an_account_no_kernels_are_promised() -> None:
    async def trial(_account: Account) -> bool:
        raise PermissionError

    assert await KernelTrials(trial).outcome(ADA) is False


async def test_it_runs_apart_without_what_lies_in_a_home_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, program = tmp_path / "told", tmp_path / "python"
    program.write_text(
        "#!/bin/sh\n"
        "sleep 600 &\n"
        f'echo "$1 gpus=$CUDA_VISIBLE_DEVICES $!" > {told}\n'
        f"grep NoNewPrivs /proc/self/status >> {told}\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(kernel_trial.sys, "executable", str(program))

    environ = (("PATH", os.environ["PATH"]), ("CUDA_VISIBLE_DEVICES", "0"))
    assert await try_as(Account(environ=environ))
    first, second = told.read_text().splitlines()
    option, gpus, left = first.split()
    assert (option, gpus, second.split()) == ("-I", "gpus=", ["NoNewPrivs:", "1"])
    by_s = time.monotonic() + 5
    while _lives(int(left)):
        assert time.monotonic() < by_s
        await asyncio.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
