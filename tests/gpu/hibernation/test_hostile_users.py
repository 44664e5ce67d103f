"""Nobody gets by a wake what they may not have: not a file, not a right, not another's memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.hibernation import from_outside, hostile
from gpucommons.gpu.hibernation import folder as layout
from gpucommons.gpu.hibernation.criu import Criu

pytestmark = pytest.mark.criu

_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts trees for others")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may enter: pytest's own are closed to others."""
    if os.geteuid() == 0 and not (shutil.which("setpriv") and Path("/usr/bin/python3").exists()):
        pytest.skip("needs setpriv(1) and an interpreter that every user may run")
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(params=["by_users", "by_root", "by_root_without_namespaces"])
def way(request: pytest.FixtureRequest) -> dict[str, bool]:
    if request.param != "by_users" and os.geteuid() != 0:
        pytest.skip("only root starts trees for others")
    return {
        "by_root": request.param != "by_users",
        "forbidden": request.param == "by_root_without_namespaces",
    }


@pytest.mark.parametrize("play", hostile.TRIES, ids=lambda one: one.__name__)
def test_a_hostile_user_gets_nothing(
    play: Callable[[hostile.Ground], str | None], criu: Criu, place: Path, way: dict[str, bool]
) -> None:
    with hostile.ground(place, criu, **way) as ground:
        assert play(ground) is None


@as_root
@pytest.mark.parametrize("forbidden", [False, True])
@pytest.mark.parametrize(
    "play",
    [*hostile.TRIES_BY_ROOT, from_outside.pid_one_from_outside],
    ids=lambda one: one.__name__,
)
def test_nor_the_right_of_criu(
    play: Callable[[hostile.Ground], str | None], criu: Criu, place: Path, forbidden: bool
) -> None:
    with hostile.ground(place, criu, by_root=True, forbidden=forbidden) as ground:
        assert play(ground) is None


@as_root
def test_threads_that_wake_in_a_namespace_of_roots_are_out_of_reach_at_every_moment(
    criu: Criu, place: Path
) -> None:
    with hostile.ground(place, criu, by_root=True) as ground:
        assert from_outside.threads_that_wake_from_outside(ground) is None


@as_root
def test_without_one_they_are_within_reach_of_their_user(criu: Criu, place: Path) -> None:
    """The try above is worth something: what stays of it is written down for admins."""
    if _YAMA.exists() and _YAMA.read_text().strip() != "0":
        pytest.skip("this machine lets nobody trace what is not below them")
    with hostile.ground(place, criu, by_root=True, forbidden=True) as ground:
        got = from_outside.threads_that_wake_from_outside(ground)
    assert got is not None
    assert {"mem", "traced"} <= set(got.split())


def test_on_the_same_ground_an_honest_image_wakes(
    criu: Criu, place: Path, way: dict[str, bool]
) -> None:
    with hostile.ground(place, criu, **way) as ground:
        assert hostile.honest_wakes(ground)


@as_root
@pytest.mark.parametrize("forbidden", [False, True])
def test_what_was_saved_in_a_namespace_of_roots_or_without_one_wakes_in_the_other_way(
    criu: Criu, place: Path, forbidden: bool
) -> None:
    """As after an upgrade, or a change of the system's settings."""
    with hostile.ground(place, criu, by_root=True, forbidden=forbidden) as ground:
        assert hostile.honest_wakes(ground, replace(ground, forbidden=not forbidden))


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    link = tmp_path / "link"
    (tmp_path / "other").mkdir()
    link.symlink_to(tmp_path / "other")

    with pytest.raises(PermissionError, match="belongs to somebody else"):
        layout.make(link)


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / layout.LOCK).symlink_to(victim)

    with pytest.raises(OSError, match="symbolic links"):
        layout.lock(tmp_path)
    assert not victim.exists()
