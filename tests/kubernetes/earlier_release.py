"""What an earlier commit of this history had: the release that an upgrade starts from."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Before the last migrations, as this history has it.
BEFORE = "11180db5f6c949ed6db5184247744a55c641045e"


def unpack(folder: Path, *parts: str) -> Path:
    """Folders of then, in a folder of now; a checkout without its history skips the test."""
    command = ["git", "archive", BEFORE, *parts]
    try:
        packed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        # No machine can be asked for it: a checkout may come without its history.
        pytest.skip(f"only a checkout with its history has {BEFORE[:8]}: {error}")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder
