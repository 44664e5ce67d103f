"""A path that leads out of the job's folder is seen, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from gpucommons.scheduler.scripts.paths_above import may_name_paths, path_above


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import x\nd = datasets.MNIST('../data', train=True)\n", (2, "../data")),
        ('open("../a/b-1.csv")\n', (1, "../a/b-1.csv")),
        ("python main.py --data ../data\n", (1, "../data")),
        ("../run.sh\n", (1, "../run.sh")),
        ("root: ../data\n", (1, "../data")),
        ("# see ../data\n", None),
        ("from ..data import x\n", None),
        ("print('a...', x[1:..])\n", None),
        ("url = 'https://a/../b'\n", None),
        ("x = '" + "y" * 400 + "' '../data'\n", None),
        ("", None),
    ],
)
def test_the_first_line_that_names_one(text: str, found: tuple[int, str] | None) -> None:
    assert path_above(text) == found


def test_files_at_the_top_alone_are_read() -> None:
    assert may_name_paths("main.py")
    assert not may_name_paths("src/main.py")
    assert not may_name_paths("data.bin")
