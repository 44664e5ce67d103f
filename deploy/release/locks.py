"""The lock files of the images: what pip would choose today, with hashes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from deploy.release.contents import FOLDER, ROOT, CannotRelease, Debian, Image, read

_HEAD = "# Written by `python -m deploy.release lock`.\n"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)


def pins(text: str) -> dict[str, str]:
    """Versions by name."""
    return {name.lower().replace("_", "-"): found for name, found in _PINNED.findall(text)}


def write_locks() -> list[Path]:
    """Choose all packages anew; the files."""
    debian, images = read()
    return [_write(debian, image) for image in images]


def _write(debian: Debian, image: Image) -> Path:
    has = FOLDER / image.base_lock if image.base_lock else None
    command = [
        *(str(Path(sys.executable).parent / "uv"), "pip", "compile", "--quiet"),
        *("--python-version", debian.python, "--python-platform", "x86_64-manylinux_2_36"),
        *("--generate-hashes", "--no-header", "--no-annotate", "--upgrade"),
        *(part for extra in image.extras for part in ("--extra", extra)),
        *(["--constraint", str(has)] if has else []),
        str(ROOT / "pyproject.toml"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"No versions fit {image.name} together: {done.stderr.strip()}"
        raise CannotRelease(message)
    known = pins(has.read_text()) if has else {}
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", done.stdout)
    path = FOLDER / image.lock
    path.write_text(_HEAD + "".join(one for one in entries if not pins(one).keys() & known.keys()))
    return path
