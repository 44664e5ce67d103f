"""Nobody gets by a wake what they may not have: not a file, not a right, not another's memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.hibernation import hostile
from gpucommons.gpu.hibernation import folder as layout
from gpucommons.gpu.hibernation.criu import Criu

pytestmark = pytest.mark.criu


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may enter: pytest's own are closed to others."""
    if os.geteuid() == 0 and not (shutil.which("setpriv") and Path("/usr/bin/python3").exists()):
        pytest.skip("needs setpriv(1) and an interpreter that every user may run")
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(params=[False, True], ids=["by_users", "by_root"])
def by_root(request: pytest.FixtureRequest) -> bool:
    if request.param and os.geteuid() != 0:
        pytest.skip("only root starts trees for others")
    return bool(request.param)


@pytest.mark.parametrize("play", hostile.TRIES, ids=lambda one: one.__name__)
def test_a_hostile_user_gets_nothing(
    play: Callable[[hostile.Ground], str | None], criu: Criu, place: Path, by_root: bool
) -> None:
    with hostile.ground(place, criu, by_root=by_root) as ground:
        assert play(ground) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts trees for others")
@pytest.mark.parametrize("play", hostile.TRIES_BY_ROOT, ids=lambda one: one.__name__)
def test_nor_the_right_that_counts_on_the_whole_machine(
    play: Callable[[hostile.Ground], str | None], criu: Criu, place: Path
) -> None:
    with hostile.ground(place, criu, by_root=True) as ground:
        assert play(ground) is None


def test_on_the_same_ground_an_honest_image_wakes(criu: Criu, place: Path, by_root: bool) -> None:
    with hostile.ground(place, criu, by_root=by_root) as ground:
        assert hostile.honest_wakes(ground)


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
