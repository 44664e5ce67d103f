"""``python -m gpucommons.gpu.shim``: build the libraries for this machine."""

import sys

from gpucommons.gpu.shim.building import CannotBuildShim, build, build_semaphores

try:
    sys.stdout.write(f"{build()}\n{build_semaphores()}\n")
except CannotBuildShim as error:
    sys.exit(str(error))
