"""Starts root's program above a server, run by its path and without ``site``: nothing of anybody's runs."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Stand above the server until it ends; its status is ours."""
    # The packages are not on the path of an isolated interpreter.
    sys.path.insert(0, str(Path(__file__).absolute().parents[4]))
    from gpucommons.gpu.hibernation.above_server.program import (  # noqa: PLC0415 - see above
        MOST_TREES,
        Program,
        Settings,
    )
    from gpucommons.gpu.hibernation.above_server.standing import (  # noqa: PLC0415 - see above
        ended_by_itself,
        groups_of,
    )
    from gpucommons.gpu.hibernation.inside import outside  # noqa: PLC0415 - see above
    from gpucommons.gpu.hibernation.inside.by_root import rights  # noqa: PLC0415 - see above
    from gpucommons.gpu.hibernation.inside.tree_settings import Account  # noqa: PLC0415 - see above

    given = _parser().parse_args(arguments)
    os.chdir("/")
    rights.keep_for_starting()
    settings = Settings(
        account=Account.from_word(given.account),
        home=given.home,
        criu=tuple(json.loads(given.criu)),
        server=given.server,
        most_trees=given.most_trees or MOST_TREES,
        group_of_trees=None if (made := groups_of(given.place.parent)) is None else made.trees,
    )
    with socket.socket(fileno=given.listener) as listener:
        listener.set_inheritable(False)
        try:
            status = Program(settings, listener).run()
        finally:
            # Not asked of the socket: a long path was bound by another name.
            ended_by_itself(given.place)
    return outside.end_as(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="launch.py", description=__doc__)
    parser.add_argument("--account", required=True, help="UID:GID:GROUPS, of the server's user")
    parser.add_argument("--home", required=True, type=Path, help="below it kernels are kept")
    parser.add_argument("--criu", required=True, help="CRIU's command, as a JSON list")
    parser.add_argument("--listener", required=True, type=int, help="a listening socket")
    parser.add_argument(
        "--place", required=True, type=Path, help="where it lies, in a folder of its own"
    )
    parser.add_argument("--server", required=True, type=int, help="the server's process")
    parser.add_argument("--most-trees", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
