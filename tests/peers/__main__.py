"""``python -m tests.peers``: the suites of others on our classes, one after the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run every ``run_*.py`` beside this file; the worst exit code is ours."""
    worst = 0
    for script in sorted(Path(__file__).parent.glob("run_*.py")):
        sys.stdout.write(f"== {script.stem.removeprefix('run_')}\n")
        sys.stdout.flush()
        worst = max(worst, subprocess.run([sys.executable, str(script)], check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main())
