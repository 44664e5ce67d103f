"""Run JupyterHub's own spawner tests, as its wheel ships them, on GpuLocalSpawner.

In a virtual environment of its own beside ours, because the suite needs tools that we do not. Its
hub listens on port 8000.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

PORT = 8000
ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv-peers-spawner"
PYTHON = VENV / "bin" / "python"
NEEDS = (
    "beautifulsoup4",
    "cryptography",
    "pytest>=8.3",
    "pytest-asyncio>=1.1",
    "pytest-rerunfailures",
    "pytest-timeout",
    "requests-mock",
    "virtualenv",
)
MODULES = ("test_spawner", "test_named_servers", "test_user")


def make_environment() -> None:
    """The suite's tools, and our packages as they are installed: a path line is enough."""
    if PYTHON.exists():
        return
    subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    site = next((VENV / "lib").glob("python*/site-packages"))
    ours = next((ROOT / ".venv" / "lib").glob("python*/site-packages"))
    (site / "ours.pth").write_text(f"{ours}\n{ROOT / 'build' / 'editable'}\n")
    subprocess.run([str(PYTHON), "-m", "pip", "install", "-q", *NEEDS], check=True)


def refuse_busy_port() -> None:
    """The suite's proxy has a fixed port: better a sentence than a minute of timeouts."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError:
            sys.exit(f"Port {PORT} is in use; the suite needs it for its own JupyterHub.")


def main() -> int:
    """Run the suite and hand on its exit code."""
    refuse_busy_port()
    make_environment()
    programs = (ROOT / ".venv" / "bin", ROOT / "node_modules" / ".bin")
    path = os.pathsep.join([*map(str, programs), os.environ["PATH"]])
    plugin = Path(__file__).parent / "jupyterhub_spawner"
    command = [str(PYTHON), "-m", "pytest", "-q", "-p", "swap_local", "-p", "no:cacheprovider"]
    # Our own pytest settings are not the suite's.
    command += ["-c", os.devnull, "--rootdir", str(VENV), "-o", "asyncio_mode=auto"]
    for scope in ("fixture", "test"):
        command += ["-o", f"asyncio_default_{scope}_loop_scope=module"]
    command += ["-W", "ignore::pytest.PytestUnknownMarkWarning"]
    command += ["--pyargs", *(f"jupyterhub.tests.{name}" for name in MODULES), *sys.argv[1:]]
    done = subprocess.run(
        command,
        cwd=VENV,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(plugin)},
        check=False,
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
