"""Makes the moving picture of the README from pictures of the product: ``make moving-picture``.

The pictures are taken by the tests in a real browser (``tests/ui``) and lie in ``docs/images``. Each
scene stands long enough to be read, and the whole is played once: what moves for ever disturbs.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

IMAGES = Path(__file__).parent / "images"
TARGET = IMAGES / "story.webp"
SIZE, CAPTION = (1000, 720), 48
SCENE_MS = 4500
SCENES = (
    ("start-light", "Pick half a GPU on JupyterHub's start page: it is the team's own."),
    ("first-lab-light", "JupyterLab shows what this half does, live."),
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


if __name__ == "__main__":
    make()
