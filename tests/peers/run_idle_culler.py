"""Run the published suite of jupyterhub-idle-culler on our culler.

Downloads its source distribution from the package registry, makes a virtual environment of its own
beside ours, and runs its tests unchanged, with our adapter package first on the path. The suite
starts a real JupyterHub on port 8000.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import psutil

#: The proxy's own secret; whatever carries this one was started by this run.
MARK = "CONFIGPROXY_AUTH_TOKEN"
VERSION = "2.0.0"
PORT = 8000
ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv-peers"
PYTHON = VENV / "bin" / "python"
NEEDS = ("configurable-http-proxy", "packaging", "psutil", "pytest<9", "pytest-asyncio<1")


def make_environment() -> None:
    """Our own packages as they are installed, and the suite's tools beside them."""
    if PYTHON.exists():
        return
    subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    # The same JupyterHub and the editable gpucommons: a path line is enough, nothing is copied.
    site = next((VENV / "lib").glob("python*/site-packages"))
    ours = next((ROOT / ".venv" / "lib").glob("python*/site-packages"))
    (site / "ours.pth").write_text(f"{ours}\n{ROOT / 'build' / 'editable'}\n")
    tools = [need for need in NEEDS if need != "configurable-http-proxy"]
    subprocess.run([str(PYTHON), "-m", "pip", "install", "-q", *tools], check=True)


def fetch_suite(folder: Path) -> Path:
    """Its tests folder, unpacked."""
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
    subprocess.run(
        [*download, "--dest", str(folder), f"jupyterhub-idle-culler=={VERSION}"], check=True
    )
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / f"jupyterhub_idle_culler-{VERSION}" / "tests"


def prepare(tests: Path) -> None:
    """Make room for machines on which everything runs as root; nothing else is touched."""
    if os.geteuid() == 0:
        with (tests / "jupyterhub_config.py").open("a") as config:
            config.write('\nc.Spawner.args = ["--allow-root"]\n')


def refuse_busy_port() -> None:
    """The suite's hub has a fixed port: better a sentence than thirty seconds of timeouts."""
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
    with tempfile.TemporaryDirectory(prefix="gc-peers-") as name:
        tests = fetch_suite(Path(name))
        prepare(tests)
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parent),
            "PATH": os.pathsep.join(
                (
                    str(ROOT / ".venv" / "bin"),
                    str(ROOT / "node_modules" / ".bin"),
                    os.environ["PATH"],
                )
            ),
            MARK: secrets.token_hex(16),
        }
        command = [str(PYTHON), "-m", "pytest", "-q", str(tests), "-p", "no:cacheprovider"]
        # A folder of its own as root directory: our pytest settings are not the suite's.
        command += [
            "--rootdir",
            str(tests),
            "-c",
            os.devnull,
            "-o",
            "asyncio_mode=auto",
            *sys.argv[1:],
        ]
        try:
            return subprocess.run(command, env=environment, cwd=tests, check=False).returncode
        finally:
            end_leftovers(environment[MARK])


def end_leftovers(token: str) -> None:
    """The suite ends its hub but not what the hub started in sessions of their own (the proxy)."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == token:
                process.kill()


if __name__ == "__main__":
    sys.exit(main())
