"""The first process of a tree that root started: becomes its command, as its user, without any right.

The order comes on standard input, so that root never reads it, and no variable of the user's reaches a
process that still has a right.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main() -> int:
    """Become the command."""
    # The packages are not on the path of an isolated interpreter.
    sys.path.insert(0, str(Path(__file__).absolute().parents[4]))
    from gpucommons.gpu.linux.signals import hear_all  # noqa: PLC0415 - see above

    order = json.load(sys.stdin.buffer)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.umask(order["umask"])
    os.chdir(order["cwd"])
    hear_all()
    command: list[str] = order["command"]
    os.execvpe(command[0], command, order["environ"])  # noqa: S606 - a list, no shell; the user's own


if __name__ == "__main__":
    sys.exit(main())
