"""The first step of the pipeline."""

from pathlib import Path

Path("clean.txt").write_text("3 1 2")
