"""Records the moving picture of the README: ``make moving-picture``.

A real browser plays the story of the whole product (``tests/ui``), in which people log in, work, submit,
are stopped for others and wait in line; its pictures lie in ``docs/images``. Each scene stands long enough
to be read, and the whole is played once: what moves for ever disturbs. ``--again`` makes it from the
pictures that are there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
#: What plays the story and takes the pictures.
STORY = "tests/ui/test_product.py"
TARGET = IMAGES / "story.webp"
SIZE, CAPTION = (1000, 720), 48
SCENE_MS = 4500
SCENES = (
    ("start-light", "Pick half a GPU on JupyterHub's start page: it is the team's own."),
    ("lab-light", "JupyterLab shows what this half does, live."),
    ("job-light", "One button turns a script into a job: here on three borrowed GPUs."),
    ("job-stopped", "Their owners want them back: the job has saved, waits, and says why."),
    ("ticket-light", "Who has to wait has a place in line, a reason and a likely time."),
    ("admin-now-light", "Admins see each GPU, who waits and why, and change quotas meanwhile."),
)
_BACKGROUND, _CAPTION, _INK = "#ffffff", "#1f2933", "#ffffff"


def scene(name: str, caption: str) -> Image.Image:
    """A picture of the product with a line of text below it."""
    frame = Image.new("RGB", SIZE, _BACKGROUND)
    with Image.open(IMAGES / f"{name}.png") as shot:
        picture = shot.convert("RGB")
    picture.thumbnail((SIZE[0], SIZE[1] - CAPTION), Image.Resampling.LANCZOS)
    frame.paste(picture, ((SIZE[0] - picture.width) // 2, 0))
    draw = ImageDraw.Draw(frame)
    draw.rectangle((0, SIZE[1] - CAPTION, *SIZE), fill=_CAPTION)
    middle = (SIZE[0] // 2, SIZE[1] - CAPTION // 2)
    draw.text(middle, caption, font=ImageFont.load_default(22), fill=_INK, anchor="mm")
    return frame


def make(target: Path = TARGET) -> None:
    """Write it."""
    first, *others = [scene(*one) for one in SCENES]
    first.save(
        target,
        save_all=True,
        append_images=others,
        duration=SCENE_MS,
        loop=1,
        quality=82,
        method=6,
    )


def record() -> None:
    """Play the story, and take its pictures over: all of them or, where one is missing, none."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "GPUCOMMONS_SCREENSHOTS": folder, "REQUIRE_BROWSER": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", STORY]
        played = subprocess.run(command, cwd=ROOT, env=environ, check=False)
        taken = {name: Path(folder) / f"product-{name}.png" for name, _ in SCENES}
        missing = [name for name, path in taken.items() if not path.is_file()]
        if played.returncode or missing:
            lacks = f" Not seen: {', '.join(missing)}." if missing else ""
            sys.exit(f"The story was not played to its end, so the picture stays as it was.{lacks}")
        for name, path in taken.items():
            shutil.copyfile(path, IMAGES / f"{name}.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true", help="from the pictures that are there")
    if not parser.parse_args().again:
        record()
    make()
