"""How long somebody waits for a tree that says nothing, told with a clock of the test's own."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpucommons.gpu.hibernation import folder as layout
from gpucommons.gpu.hibernation import tree as trees
from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.tree import HibernatableTree, Refused


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """It goes on when somebody sleeps; ``then`` is called each time."""
    found = SimpleNamespace(now_s=5_000.0, then=lambda: None)

    def sleep(seconds: float) -> None:
        found.now_s += seconds
        found.then()

    monkeypatch.setattr(trees, "time", SimpleNamespace(monotonic=lambda: found.now_s, sleep=sleep))
    return found


@pytest.fixture
def living(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HibernatableTree:
    """A tree that lives and says nothing."""
    monkeypatch.setattr(HibernatableTree, "lives", lambda _: True)
    return HibernatableTree(tmp_path, Criu(command=(), version=""), preload=None)


def test_a_wake_that_says_nothing_is_waited_for_as_long_as_was_said(
    living: HibernatableTree, clock: SimpleNamespace
) -> None:
    assert living.awake(600) == Refused(because="Waking it takes too long.", alive=True)
    assert clock.now_s == pytest.approx(5_600, abs=0.1)


def test_a_wake_that_ends_in_its_last_second_counts(
    living: HibernatableTree, clock: SimpleNamespace
) -> None:
    def then() -> None:
        if clock.now_s > 5_599:
            (living.folder / layout.WOKEN).write_text(json.dumps(None))

    clock.then = then
    assert living.awake(600) is None


def test_one_that_saves_itself_is_waited_for_as_long_as_was_said(
    living: HibernatableTree, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not living.settled(30)
    assert clock.now_s == pytest.approx(5_030, abs=0.1)
    monkeypatch.setattr(HibernatableTree, "lives", lambda _: clock.now_s < 5_059)
    assert living.settled(30)


def test_a_save_that_nobody_answers_is_given_up_with_a_sentence(
    living: HibernatableTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    class Silent:
        def __enter__(self) -> Silent:
            return self

        def __exit__(self, *_: object) -> None:
            """Nothing was opened."""

        def settimeout(self, seconds: float) -> None:
            asked.append(seconds)

        def sendall(self, content: bytes) -> None:
            told = json.loads(content)
            asked.append((told["save_within_s"], told["let_go_s"]))

        def makefile(self, _mode: str) -> SimpleNamespace:
            raise TimeoutError

    monkeypatch.setattr(trees, "_connected", lambda _folder: Silent())
    assert living.save(120) == Refused(because="It was not saved in time.", alive=True)
    # CRIU has its time, and all that comes after it has some more.
    assert asked == [150, (120, None)]
