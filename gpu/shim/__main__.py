"""``python -m gpucommons.gpu.shim``: build the libraries for this machine."""

import sys

from gpucommons.gpu.shim.building import CannotBuildShim, build, build_preloads

try:
    sys.stdout.write(f"{build()}\n{build_preloads()}\n")
except CannotBuildShim as error:
    sys.exit(str(error))
