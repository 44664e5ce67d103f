"""``python -m gpucommons.idle_culler``."""

from gpucommons.gpu.extras import program_of

with program_of("service"):
    from gpucommons.idle_culler.app import main

if __name__ == "__main__":
    main()
