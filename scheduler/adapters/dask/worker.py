"""One Dask worker of the job, as a program: it ends when the notebook's scheduler has gone.

A job that began when its notebook was over looks for it for a minute, and has succeeded: there is
nothing left to do, and nothing to try again.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
from distributed import Worker
from distributed.security import Security

#: In the working folder: what the cluster knows its own by, and its key.
CERTIFICATE = "dask.pem"
PATIENCE_S = 60


def settings(environ: Mapping[str, str], memory_mib: int) -> dict[str, Any]:
    """What a worker has of the machine."""
    has_gpu = bool(environ.get("CUDA_VISIBLE_DEVICES"))
    return {
        "nthreads": 1,
        "memory_limit": memory_mib << 20,  # 0: as much as there is
        # No two attempts share names: Dask refuses one whose last bearer it does not know to be gone.
        "name": f"{environ.get('GPUCOMMONS_ATTEMPT', '1')}.{environ.get('GPUCOMMONS_RANK', '0')}",
        "resources": {"GPU": 1} if has_gpu else {},
        "death_timeout": PATIENCE_S,
        "local_directory": scratch(),
        "dashboard": False,
    }


def scratch() -> str:
    """A folder of this user alone: what a worker puts aside there it unpickles later. Dask's own place may
    have been made by anybody of this machine, who could put something else there.
    """
    place = Path(tempfile.gettempdir()) / f"gpucommons-dask-{os.getuid()}"
    with suppress(FileExistsError):
        place.mkdir(mode=0o700)
    found = place.lstat()
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if is_own and not found.st_mode & 0o077:
        return str(place)  # of all workers, so that Dask clears away what killed ones left
    return tempfile.mkdtemp(prefix="gpucommons-dask-")


class JobWorker(Worker):
    """Ends at once: whoever waited for what it is at has gone, and its GPU is somebody else's."""

    async def close(self, *words: Any, **options: Any) -> Any:
        """See Dask, which waits half a minute for its threads."""
        return await super().close(*words, **{"timeout": 1, "executor_wait": False, **options})


async def serve(address: str, security: Security, memory_mib: int) -> str:
    """Work until its scheduler has gone; what became of that."""
    try:
        worker = await JobWorker(address, security=security, **settings(os.environ, memory_mib))
    except (TimeoutError, OSError) as error:
        return f"The notebook that these workers were for has gone: {error}"
    await worker.finished()
    return "The notebook that these workers were for has gone, or closed its cluster."


def main() -> None:
    """The job's command."""
    held = str(Path(CERTIFICATE).resolve())
    security = Security(
        tls_ca_file=held, tls_worker_cert=held, tls_worker_key=held, require_encryption=True
    )
    with dask.config.set({"distributed.worker.http.routes": []}):
        said = asyncio.run(serve(sys.argv[1], security, int(sys.argv[2])))
    print(said, flush=True)  # noqa: T201 - into the job's log
    # Its thread may be at a task still, which nothing can interrupt.
    os._exit(0)


if __name__ == "__main__":
    main()
