"""The self-test as a program, for who asks on another account's behalf: exit code 0 where it passed.

It looks for CRIU where that account's notebook servers would, and writes where they would.
"""

from __future__ import annotations

import os
import sys

from gpucommons.gpu.hibernation.criu import find_criu
from gpucommons.gpu.hibernation.inside import calls
from gpucommons.gpu.hibernation.self_test import self_test
from gpucommons.gpu.linux.state_home import state_home


def main() -> int:
    """Try it."""
    calls.no_new_privileges()
    criu = find_criu(os.environ)
    if criu is None:
        return 1
    folder = state_home(os.environ) / "gpucommons"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return 1
    return 0 if self_test(criu, folder).can_hibernate else 1


if __name__ == "__main__":
    sys.exit(main())
