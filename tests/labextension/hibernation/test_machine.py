"""Where it does not work, kernels are Jupyter's own, and whoever was promised something is told why."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.self_test import NO_CRIU, Ability
from gpucommons.labextension.hibernation import machine as machines
from gpucommons.labextension.hibernation.machine import this_machine

CRIU = Criu(command=("criu",), version="4.2.1")


def ability(*, can: bool) -> Ability:
    return Ability(
        can_hibernate=can, because="" if can else "Not here.", save_mib_per_s=1, wake_mib_per_s=1
    )


def test_without_criu_nothing_is_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "find_criu", lambda _environ: None)
    found = this_machine({}, tmp_path)

    assert not found.has_criu
    assert found.why_not() == NO_CRIU


def test_a_passed_test_is_not_repeated_and_a_failed_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [ability(can=False), ability(can=True)]
    monkeypatch.setattr(machines, "find_criu", lambda _environ: CRIU)
    monkeypatch.setattr(machines, "self_test", lambda *_arguments: answers.pop(0))
    ask = this_machine({}, tmp_path).why_not

    assert [ask(), ask(), ask()] == ["Not here.", None, None]


def test_another_criu_is_tested_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [CRIU, Criu(command=("criu",), version="4.3")]
    tested: list[Criu] = []

    def test(criu: Criu, *_arguments: object) -> Ability:
        tested.append(criu)
        return ability(can=True)

    monkeypatch.setattr(machines, "self_test", test)
    for criu in found:
        monkeypatch.setattr(machines, "find_criu", lambda _environ, criu=criu: criu)
        this_machine({}, tmp_path).why_not()

    assert tested == found


def test_a_home_that_cannot_be_written_is_a_reason_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(machines, "find_criu", lambda _environ: CRIU)

    assert "could not be tested" in (this_machine({}, tmp_path / "file" / "x").why_not() or "")
