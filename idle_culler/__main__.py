"""``python -m gpucommons.idle_culler``."""

from gpucommons.idle_culler.app import main

if __name__ == "__main__":
    main()
