"""Trains on the clean data; one that is not allowed to yet fails."""

import os
import sys
from pathlib import Path

if os.environ.get("NEEDS") and not Path(os.environ["NEEDS"]).exists():
    sys.exit("its data is not there yet")
Path("model.txt").write_text(str(sum(map(int, Path("clean.txt").read_text().split()))))
