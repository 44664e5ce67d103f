"""Starts or wakes a hibernatable tree: ``python -I -S init.py FOLDER run -- COMMAND…``.

Run by its path and without ``site``: it stands beside each tree for as long as that lives, and
needs neither the packages of the user nor their start-up files.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Stand for the tree until it ends; its status is ours."""
    # The packages are not on the path of an isolated interpreter.
    sys.path.insert(0, str(Path(__file__).absolute().parents[3]))
    from gpucommons.gpu.hibernation.folder import REFUSED_STATUS  # noqa: PLC0415 - see above
    from gpucommons.gpu.hibernation.inside.by_root.rights import NotAllowed  # noqa: PLC0415 - see above
    from gpucommons.gpu.hibernation.inside.outside import stand_for  # noqa: PLC0415 - see above
    from gpucommons.gpu.hibernation.inside.tree_settings import Account, TreeSettings  # noqa: PLC0415 - see above

    # By hand: what follows is the command's own, whatever it looks like.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    given = _parser().parse_args(arguments[:end])
    settings = TreeSettings(
        folder=Path(given.folder),
        wake=given.what == "wake",
        command=tuple(arguments[end + 1 :]),
        criu=tuple(json.loads(given.criu)),
        save_when_orphaned=given.orphaned == "save",
        output=Path(given.output) if given.output else None,
        preload=given.preload,
        close_connections=given.close_connections,
        driver=given.driver,
        account=Account.from_word(given.account) if given.account else None,
        handed=tuple(given.handed),
        has_order=given.has_order,
        alive=given.alive,
        places=tuple((new, old) for new, old in json.loads(given.places)),
    )
    try:
        return stand_for(settings)
    except NotAllowed as error:
        # Not where it is looked for: root writes nothing into a user's folder.
        sys.stderr.write(f"{error}\n")
        return REFUSED_STATUS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="init.py", description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("what", choices=("run", "wake"))
    parser.add_argument("--criu", required=True, help="CRIU's command, as a JSON list")
    parser.add_argument("--orphaned", choices=("end", "save"), default="end")
    parser.add_argument("--output", help="append what the tree prints to this file")
    parser.add_argument("--preload", help="a library that every process of the tree loads")
    parser.add_argument("--close-connections", action="store_true")
    parser.add_argument("--driver", help="NVIDIA's driver, where it can park")
    parser.add_argument("--account", help="UID:GID:GROUPS: started by root, for this user")
    parser.add_argument("--handed", type=int, nargs="*", default=(), help="descriptors it gets")
    parser.add_argument("--has-order", action="store_true", help="it reads its standard input")
    parser.add_argument("--alive", type=int, help="a descriptor that ends with who asked")
    parser.add_argument("--places", default="[]", help="folders and where they are seen, as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
