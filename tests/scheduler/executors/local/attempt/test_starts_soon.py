from __future__ import annotations

import subprocess
import sys


def test_what_stands_above_every_job_loads_neither_the_cluster_nor_http() -> None:
    """Each job waits for it: the cluster's state and HTTP were a third of its start."""
    code = (
        "import sys, gpucommons.scheduler.executors.supervisor;"
        "print(*{'gpucommons.scheduler.core.model.state', 'http.client'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []
