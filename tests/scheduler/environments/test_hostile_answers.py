"""Who looks at a user's environments is a process of that user, which may say anything."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpucommons.scheduler.environments.base import Wanted
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.executors.local import machine_environments as machine
from gpucommons.scheduler.executors.local.attempt.plan import Account
from gpucommons.scheduler.executors.local.machine_environments import MachineEnvironments

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the account")


@pytest.fixture
def theirs(tmp_path: Path) -> MachineEnvironments:
    return MachineEnvironments(
        home_of=lambda _user: tmp_path,
        account_of=lambda _user: Account(uid=0, gid=0),
        environ={"PATH": "/usr/bin:/bin"},
    )


def answering(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    program = folder / "looking"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(machine.sys, "executable", str(program))


def test_the_question_reaches_it_and_its_answer_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, theirs: MachineEnvironments
) -> None:
    answering(monkeypatch, tmp_path, f'cat >{tmp_path}/asked; echo \'{{"path": "/opt/env"}}\'')
    assert theirs.settle("ann", Wanted(environment="torch")) == "/opt/env"
    assert json.loads((tmp_path / "asked").read_text())["asked"] == "torch"


@pytest.mark.parametrize(
    "script",
    [
        "exit 1",
        "echo '[1]'",
        "echo '{\"path\": 7}'",
        "echo '{\"else\": 1}'",
        "exec yes",
        "kill -STOP $$",
    ],
)
def test_what_is_no_answer_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, theirs: MachineEnvironments, script: str
) -> None:
    monkeypatch.setattr(machine, "TIMEOUT_S", 2.0)
    answering(monkeypatch, tmp_path, script)
    with pytest.raises(Misconfigured, match="could not be looked at"):
        theirs.settle("ann", Wanted(environment="torch"))


def test_a_list_that_is_none_is_empty(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, theirs: MachineEnvironments
) -> None:
    answering(monkeypatch, tmp_path, 'echo \'{"environments": [{"path": "/x"}]}\'')
    assert theirs.listed("ann") == []
