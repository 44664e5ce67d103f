"""``python -m gpucommons.scheduler.operator``: see ``--help``."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from gpucommons.gpu.extras import program_of
from gpucommons.gpu.said_once import log_to_stderr

with program_of("kubernetes"):
    from gpucommons.scheduler.operator.options import read_settings
    from gpucommons.scheduler.operator.running import operate


async def _until_signalled() -> None:
    settings = read_settings(sys.argv[1:], os.environ)
    # The framework's own handlers set it on SIGTERM and SIGINT.
    await operate(settings, asyncio.Event())


def main() -> int:
    """Run one operator until it is told to end."""
    log_to_stderr("%(asctime)s %(levelname)s %(name)s: %(message)s")
    # A line for each event of each object is too much of a good thing.
    for chatty in ("httpx", "kopf.objects"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    asyncio.run(_until_signalled())
    return 0


if __name__ == "__main__":
    sys.exit(main())
