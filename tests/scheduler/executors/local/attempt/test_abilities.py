"""What a machine can do is known once its trial is over, and nothing is offered that was not tried."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.self_test import Ability
from gpucommons.scheduler.core.model.going_on import HibernationAbility
from gpucommons.scheduler.executors.local import abilities
from gpucommons.scheduler.executors.local.abilities import Abilities

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux saves processes")
CRIU = Criu(command=("/opt/criu",), version="4.2")


def known(one: Abilities) -> Abilities:
    waited = threading.Event()
    for _ in range(600):
        if one.are_known():
            break
        waited.wait(0.1)
    assert one.are_known()
    return one


def tried(one: Abilities) -> HibernationAbility:
    """What its last trial found."""
    assert one._thread is not None
    one._thread.join()
    found = one.found()
    assert found is not None
    return found


def test_without_criu_it_is_known_that_nothing_is_saved(tmp_path: Path) -> None:
    found = known(Abilities({"HOME": str(tmp_path), "PATH": str(tmp_path)}, tmp_path)).found()
    if found is not None and found.able:
        pytest.skip("CRIU is installed where root looks for it")
    assert found is not None
    assert "CRIU 4.2" in found.because


@pytest.mark.parametrize("fails", [False, True])
def test_a_trial_that_says_no_or_breaks_offers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    monkeypatch.setattr(abilities, "find_criu", lambda _environ: CRIU)

    def test(_criu: Criu, _folder: Path, _seconds: float) -> Ability:
        if fails:
            raise TimeoutError("it took too long")
        return Ability(can_hibernate=False, because="The kernel says no.")

    found = known(Abilities({}, tmp_path, test)).found()
    assert found is not None
    assert not found.able
    assert ("it took too long" if fails else "the kernel says no") in found.because


def test_who_starts_what_is_saved_is_known_with_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abilities, "find_criu", lambda _environ: CRIU)

    for by_root in (False, True):
        made = known(
            Abilities({}, tmp_path, lambda *_, by=by_root: Ability(can_hibernate=True, by_root=by))
        )
        assert made.is_by_root() is by_root


def test_a_criu_that_comes_while_the_scheduler_runs_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[Criu] = []
    looks: list[float] = []

    def find(_environ: object) -> Criu | None:
        looks.append(now_s[0])
        return there[0] if there else None

    monkeypatch.setattr(abilities, "find_criu", find)
    now_s = [0.0]
    one = Abilities(
        {},
        tmp_path,
        lambda _criu, _folder, _seconds: Ability(can_hibernate=True, because=""),
        steady_s=lambda: now_s[0],
    )
    found = known(one).found()
    assert found is not None
    assert not found.able
    there.append(CRIU)
    assert one.found() is found
    # While it is looked for again, what was known holds.
    now_s[0] = 40.0
    one.found()
    assert one.are_known()
    found = tried(one)
    assert (found.able, one.criu()) == (True, CRIU.command)
    now_s[0] = 80.0
    one.found()
    assert looks == [0.0, 40.0]


def test_a_scheduler_that_comes_back_goes_by_its_last_trial_until_the_new_one_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abilities, "find_criu", lambda _environ: CRIU)
    folder, over = tmp_path / "self-test", threading.Event()
    able = Ability(can_hibernate=True, save_mib_per_s=150, wake_mib_per_s=300, by_root=True)
    before = known(Abilities({}, folder, lambda *_: able)).found()

    def slow(*_: object) -> Ability:
        over.wait(60)
        return Ability(can_hibernate=False, because="The kernel says no.")

    back = Abilities({}, folder, slow)
    found = waited_for(back)
    assert (found, back.is_by_root(), back.criu()) == (before, True, CRIU.command)
    assert not back.are_known()
    over.set()
    found = tried(back)
    assert (found.able, back.is_by_root()) == (False, False)


@pytest.mark.parametrize("record", ["another CRIU", "{", "[]", '{"of": null}'])
def test_a_trial_of_another_criu_or_a_damaged_record_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: str
) -> None:
    folder, over = tmp_path / "self-test", threading.Event()
    monkeypatch.setattr(abilities, "find_criu", lambda _environ: CRIU)
    known(Abilities({}, folder, lambda *_: Ability(can_hibernate=True)))
    if record == "another CRIU":
        newer = Criu(command=CRIU.command, version="4.3")
        monkeypatch.setattr(abilities, "find_criu", lambda _environ: newer)
    else:
        folder.with_suffix(".json").write_text(record)
    begun = threading.Event()

    def slow(*_: object) -> Ability:
        begun.set()
        over.wait(60)
        return Ability(can_hibernate=True)

    back = Abilities({}, folder, slow)
    assert back.found() is None
    assert begun.wait(60)
    assert back.found() is None
    over.set()
    assert tried(back).able


def waited_for(one: Abilities) -> HibernationAbility | None:
    """What is found before its trial is over."""
    waited = threading.Event()
    for _ in range(600):
        if one.found() is not None:
            break
        waited.wait(0.1)
    return one.found()


def test_a_trial_on_a_busy_machine_does_not_decide_alone_how_fast_its_disk_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abilities, "find_criu", lambda _environ: CRIU)
    found = []
    for rate in (224, 10, 12, 11, 210, 200, 190):
        able = Ability(can_hibernate=True, save_mib_per_s=rate, wake_mib_per_s=2 * rate)
        one = tried(known(Abilities({}, tmp_path / "self-test", lambda *_, able=able: able)))
        found.append((one.save_mib_per_s, one.wake_mib_per_s))
    assert [save for save, _ in found] == [224, 224, 12, 12, 12, 12, 190]
    assert all(wake == 2 * save for save, wake in found)
