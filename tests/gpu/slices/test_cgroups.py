"""Control groups of slices, in a plain folder: what lies below a slice's group belongs to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucommons.gpu.slices.cgroups import FOLDER, Cgroups
from gpucommons.gpu.slices.slices import SliceId

SLICE = SliceId("s1")


@pytest.mark.parametrize(
    ("group", "is_held"),
    [
        (f"/{FOLDER}/s1", True),
        (f"/{FOLDER}/s1/gpucommons-trees-x", True),
        (f"/{FOLDER}/s10", False),
        ("/user.slice", False),
    ],
)
def test_a_process_below_a_slices_group_is_in_it(tmp_path: Path, group: str, is_held: bool) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(f"1:cpu:/\n0::{group}\n")
    assert Cgroups(tmp_path / "cgroup", proc=tmp_path).holds(SLICE, 7) is is_held


def test_empty_groups_of_servers_go_with_the_slice_and_busy_ones_keep_it(tmp_path: Path) -> None:
    groups = Cgroups(tmp_path)
    below = Path(groups.make(SLICE)) / "gpucommons-trees-x"
    below.mkdir()
    (below / "busy").touch()
    with pytest.raises(OSError, match="not empty"):
        groups.remove(SLICE)
    (below / "busy").unlink()
    groups.remove(SLICE)
    assert not groups.exists(SLICE)
