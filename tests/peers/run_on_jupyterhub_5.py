"""Run our own tests with a real hub on JupyterHub 5, the other version that we support.

In a virtual environment of its own beside ours: JupyterHub 5 is its own, everything else is ours
by a path line.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HUB = "jupyterhub>=5.5,<6"
ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv-hub5"
PYTHON = VENV / "bin" / "python"


def make_environment() -> None:
    """JupyterHub 5 in front, our packages as they are installed behind it."""
    if PYTHON.exists():
        return
    subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    subprocess.run([str(PYTHON), "-m", "pip", "install", "-q", HUB], check=True)
    site = next((VENV / "lib").glob("python*/site-packages"))
    ours = next((ROOT / ".venv" / "lib").glob("python*/site-packages"))
    (site / "ours.pth").write_text(f"{ours}\n{ROOT / 'build' / 'editable'}\n")


def main() -> int:
    """Run them and hand on the exit code."""
    make_environment()
    path = os.pathsep.join([str(ROOT / "node_modules" / ".bin"), os.environ["PATH"]])
    command = [str(PYTHON), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "tests/integration", "tests/spawner", *sys.argv[1:]],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        check=False,
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
