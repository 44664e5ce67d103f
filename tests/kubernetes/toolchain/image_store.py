"""The large image is unpacked once per machine, not once per node and test run.

A containerd of its own imports the base image into a folder of the cache, the template. A node's
containerd starts with a copy of the template's two databases; blobs and unpacked layers, which
nobody writes, are links to the template's. What a node removes is then only a link.
"""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import textwrap
import time
from dataclasses import asdict
from pathlib import Path

from deploy.release.archive import Written
from tests.kubernetes.api import wait_for
from tests.kubernetes.toolchain import toolchain
from tests.kubernetes.toolchain.images import base_archive, base_key

DATABASES = (
    "io.containerd.metadata.v1.bolt/meta.db",
    "io.containerd.snapshotter.v1.overlayfs/metadata.db",
)
#: A template of other packages may be in use by another checkout's cluster.
KEPT_SECONDS = 7 * 24 * 3600
BLOBS = "io.containerd.content.v1.content/blobs/sha256"
SNAPSHOTS = "io.containerd.snapshotter.v1.overlayfs/snapshots"
CONFIG = """\
version = 3
root = "{template}"
state = "{scratch}/state"
disabled_plugins = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime",
                    "io.containerd.grpc.v1.cri"]
[grpc]
address = "{scratch}/containerd.sock"
[plugins.'io.containerd.internal.v1.opt']
path = "{scratch}/opt"
"""


def template() -> tuple[Path, Written]:
    """The folder with the unpacked base image, made now if need be, and its layer."""
    folder = toolchain.cache_folder() / "unpacked"
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"base-{base_key()}"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            for old in folder.glob("base-*"):
                if old.suffix == ".partial" or time.time() - old.stat().st_mtime > KEPT_SECONDS:
                    shutil.rmtree(old)  # of a run that was killed, or of packages long gone
            partial = folder / f"{made.name}.partial"
            layer = _import_base(partial)
            (partial / "layer.json").write_text(json.dumps(asdict(layer) | {"path": None}))
            partial.rename(made)
    return made, Written(**json.loads((made / "layer.json").read_text()))


def furnish(root: Path) -> Written:
    """Let a containerd that starts in this root know the base image; its layer."""
    made, layer = template()
    for name in DATABASES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made / name, root / name)
    for name in (BLOBS, SNAPSHOTS):
        (root / name).mkdir(parents=True, exist_ok=True)
        for item in (made / name).iterdir():
            (root / name / item.name).symlink_to(item)
    return layer


def _import_base(root: Path) -> Written:
    with tempfile.TemporaryDirectory(prefix="gc-images-") as scratch:
        archive, layer = base_archive(Path(scratch))
        config = Path(scratch) / "containerd.toml"
        config.write_text(textwrap.dedent(CONFIG).format(template=root, scratch=scratch))
        socket = f"{scratch}/containerd.sock"
        control = [toolchain.find("ctr"), "-a", socket, "-n", "k8s.io"]
        server = subprocess.Popen(
            [toolchain.find("containerd"), "--config", config],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ,
        )
        try:
            wait_for(lambda: _answers(control), "containerd")
            subprocess.run(
                [*control, "images", "import", "--snapshotter", "overlayfs", archive],
                check=True,
                capture_output=True,
            )
        finally:
            server.terminate()
            server.wait()
    return layer


def _answers(control: list[str | Path]) -> bool:
    answer = subprocess.run([*control, "version"], check=False, capture_output=True)
    return answer.returncode == 0
