"""Started by this name in pods that an earlier release made: :mod:`gpucommons.scheduler.file_storage.prepare`."""

from __future__ import annotations

import sys

from gpucommons.scheduler.file_storage.prepare import main

if __name__ == "__main__":
    sys.exit(main())
