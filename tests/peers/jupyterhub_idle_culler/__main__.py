"""``python -m jupyterhub_idle_culler --help``."""

from gpucommons.idle_culler.app import main

main()
