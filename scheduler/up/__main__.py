"""``python -m gpucommons.scheduler.up``: the same as ``gpucommons up``."""

from gpucommons.scheduler.up import main

if __name__ == "__main__":
    raise SystemExit(main())
