"""Run KubeSpawner's own test suite on GpuKubeSpawner.

Its tests are in no package, only in its repository: a checkout of the tag that ``KUBESPAWNER_TREE``
names, or one that is cloned. In a virtual environment of its own beside ours, because the suite
needs older tools. Where ``make setup-kubernetes`` made a control plane, the tests that need an API
server run on it, with pods that simulated nodes pretend to run: what most of them ask in a pod, the API
answers; three that need a kubelet are left out. Elsewhere the suite itself skips all of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TAG = "7.1.0"
REPOSITORY = "https://github.com/jupyterhub/kubespawner"
ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv-peers-kubespawner"
PYTHON = VENV / "bin" / "python"
NEEDS = ("kubernetes<37", "pytest<8", "pytest-asyncio<0.23")
#: The suite reads a configuration at import, cluster or not.
NO_CLUSTER = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "none",
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:9"}}],
    "users": [{"name": "none", "user": {}}],
}
#: Fixtures of the suite that have no event loop, also with the suite's own class.
BROKEN = ("test_variable_expansion", "test_spawn_internal_ssl")
#: Two try the suite's own way to run a command in a pod, one waits for a kubelet's event.
IN_PODS = ("test_exec", "test_exec_error", "test_spawn_progress")


def make_environment() -> None:
    """The suite's tools in front, our packages as they are installed behind them."""
    if PYTHON.exists():
        return
    subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    site = next((VENV / "lib").glob("python*/site-packages"))
    ours = next((ROOT / ".venv" / "lib").glob("python*/site-packages"))
    (site / "ours.pth").write_text(f"{ours}\n{ROOT / 'build' / 'editable'}\n")
    subprocess.run([str(PYTHON), "-m", "pip", "install", "-q", *NEEDS], check=True)


def fetch_suite(folder: Path) -> Path | None:
    """A tree of the tag; None where there is none to be had."""
    given = os.environ.get("KUBESPAWNER_TREE")
    if given:
        return Path(given)
    git = shutil.which("git")
    if git is None:
        return None
    clone = [git, "clone", "-q", "--depth", "1", "--branch", TAG, REPOSITORY, str(folder / "tree")]
    quiet = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    found = subprocess.run(clone, env=quiet, check=False).returncode == 0
    return folder / "tree" if found else None


@contextmanager
def control_plane(folder: Path) -> Iterator[tuple[Path, bool]]:
    """A kubeconfig, and whether a cluster is behind it."""
    sys.path.insert(0, str(ROOT))
    from tests.kubernetes.cluster.cluster import Cluster  # noqa: PLC0415
    from tests.kubernetes.cluster.control_plane import PROGRAMS  # noqa: PLC0415
    from tests.kubernetes.cluster.simulated_nodes import SimulatedNodes  # noqa: PLC0415
    from tests.kubernetes.toolchain import toolchain  # noqa: PLC0415 - found only now

    if toolchain.missing([*PROGRAMS, "kwok"]):
        (folder / "kubeconfig").write_text(json.dumps(NO_CLUSTER))
        yield folder / "kubeconfig", False
        return
    cluster = Cluster()
    try:
        cluster.start()
        cluster.start_kwok()
        with cluster.client() as api:
            SimulatedNodes(api, "peer")(1, 0)
        yield cluster.kubeconfig, True
    finally:
        cluster.stop()


def main() -> int:
    """Run the suite and hand on its exit code."""
    with tempfile.TemporaryDirectory(prefix="gc-peers-") as name:
        folder = Path(name)
        tree = fetch_suite(folder)
        if tree is None:
            sys.stdout.write(
                f"Skipped: {REPOSITORY} cannot be reached. Set KUBESPAWNER_TREE to a checkout of"
                f" {TAG}.\n"
            )
            return 0
        make_environment()
        with control_plane(folder) as (kubeconfig, is_there):
            environment = {
                **os.environ,
                "KUBECONFIG": str(kubeconfig),
                "PYTHONPATH": str(Path(__file__).parent / "kubespawner_suite"),
                "SIMULATED": "1" if is_there else "",
                "LEFT_OUT": " ".join([*BROKEN, *(IN_PODS if is_there else ())]),
            }
            command = [str(PYTHON), "-m", "pytest", "tests", "-q", "-p", "swap_kube"]
            # Without coverage; the suite's own settings otherwise.
            command += ["-o", "addopts=", "-p", "no:cacheprovider"]
            done = subprocess.run([*command, *sys.argv[1:]], cwd=tree, env=environment, check=False)
            return done.returncode


if __name__ == "__main__":
    sys.exit(main())
