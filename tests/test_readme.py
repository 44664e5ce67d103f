"""What is seen first: short, with a moving picture of the product as it is, and no link to nowhere."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from PIL import Image, ImageChops, ImageStat

ROOT = Path(__file__).parents[1]
MAKING = runpy.run_path(str(ROOT / "docs" / "moving_picture.py"))
SCENES: tuple[tuple[str, str], ...] = MAKING["SCENES"]


def test_it_is_read_in_minutes() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


def test_what_it_links_to_is_there() -> None:
    leads = re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text())
    assert len(leads) > 20
    assert [one for one in leads if "://" not in one and not (ROOT / one).exists()] == []


def test_the_story_is_told_once_in_half_a_minute() -> None:
    path: Path = MAKING["TARGET"]
    assert path.stat().st_size < 1_500_000
    with Image.open(path) as story:
        assert (story.n_frames, story.info["loop"]) == (len(SCENES), 1)
    assert MAKING["SCENE_MS"] * len(SCENES) <= 30_000


@pytest.mark.parametrize("number", range(len(SCENES)))
def test_its_scenes_are_the_pictures_that_the_tests_took(number: int) -> None:
    made = MAKING["scene"](*SCENES[number])
    with Image.open(MAKING["TARGET"]) as story:
        story.seek(number)
        shown = story.convert("RGB")
    apart = ImageStat.Stat(ImageChops.difference(made, shown).convert("L")).mean[0]
    other = MAKING["scene"](*SCENES[number - 1])
    # As far apart as compression makes them, and no more: make moving-picture.
    assert apart < 4 < ImageStat.Stat(ImageChops.difference(made, other).convert("L")).mean[0]
