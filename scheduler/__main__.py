"""``python -m gpucommons.scheduler``: see ``--help``."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from gpucommons.gpu.connections import open_file_limit
from gpucommons.gpu.extras import MissingExtra, program_of
from gpucommons.gpu.said_once import log_to_stderr
from gpucommons.scheduler.errors import SchedulerError

with program_of("service"):
    from gpucommons.scheduler.wiring.options import read_settings
    from gpucommons.scheduler.wiring.serving import until_signalled


def main() -> int:
    """Run one scheduler until it is told to end."""
    log_to_stderr("%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("alembic", "httpx", "uvicorn"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    settings = read_settings(sys.argv[1:], os.environ)
    # Each caller is a connection, and those who wait keep theirs.
    open_file_limit.raise_limit()
    try:
        return asyncio.run(until_signalled(settings))
    except (SchedulerError, MissingExtra, OSError) as error:
        logging.getLogger("gpucommons.scheduler").critical("%s", error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
