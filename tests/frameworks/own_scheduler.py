"""``gpucommons up --no-hub`` on pretended GPUs, in a folder of its own: its user is this account.

Its jobs end with it: one that went on would write into a folder that is just being removed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STARTS_S = 60.0
#: Longer than it waits for its jobs to end.
STOPS_S = 180.0


@contextmanager
def own_scheduler(folder: Path, config: str, *, gpus: int = 1) -> Iterator[dict[str, str]]:
    """Run it; what its clients need in their environment."""
    (folder / "config.yaml").write_text(config)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUCOMMONS_")}
    environ = {**kept, "GPUCOMMONS_STATE": str(folder / "state"), "HOME": str(folder)}
    command = [str(Path(sys.executable).with_name("gpucommons")), "up", "--no-hub", "--stop-jobs"]
    options = ["--trusted-users", "--simulate", str(gpus), "--config", str(folder / "config.yaml")]
    written = folder / "up.log"
    with written.open("w") as log:
        up = subprocess.Popen([*command, *options], env=environ, stdout=log, stderr=log)
    try:
        until = time.monotonic() + STARTS_S
        while "Ctrl-C stops it" not in written.read_text():
            assert up.poll() is None, written.read_text()
            assert time.monotonic() < until, written.read_text()
            time.sleep(0.05)
        yield environ
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(STOPS_S)
