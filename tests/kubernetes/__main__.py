"""Real Kubernetes for tests: `setup` builds it, `where` shows it, `up` runs a cluster."""

import argparse
import os
import shutil
import signal
import sys
from pathlib import Path

from tests.kubernetes.toolchain import toolchain


def setup() -> None:
    """Build what is not there."""
    toolchain.build()
    if os.geteuid() == 0:
        from tests.kubernetes.toolchain.image_store import template  # noqa: PLC0415 needs the packages

        print(f"{'the large image':26}{template()[0]}")
    where()


def where() -> None:
    """Show where each program lies."""
    for place in toolchain.places():
        print(f"{place.name:26}{place.path or 'missing'}")


def up(kubeconfig: Path, nodes: int) -> None:
    """Run a cluster until this process is told to end."""
    from tests.kubernetes.cluster.cluster import Cluster  # noqa: PLC0415 setup needs no client

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    cluster = Cluster()
    try:
        cluster.start()
        if not toolchain.missing(["kwok"]):
            cluster.start_kwok()
        if nodes:
            cluster.start_nodes(nodes)
            cluster.import_python_image()
        shutil.copy(cluster.kubeconfig, kubeconfig)
        print(f"KUBECONFIG={kubeconfig} ({cluster.server})", flush=True)
        signal.pause()
    finally:
        cluster.stop()


def main() -> None:
    """Do what the first argument says."""
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    commands.add_parser("setup", help="build what is not there, the large image as well")
    commands.add_parser("programs", help="build the programs that are not there")
    commands.add_parser("where", help="show where each program lies")
    running = commands.add_parser("up", help="run a cluster until ended")
    running.add_argument("--kubeconfig", type=Path, default=Path("kubeconfig"))
    running.add_argument("--nodes", type=int, default=0, help="real nodes; they need root")
    arguments = parser.parse_args()
    if arguments.command == "up":
        up(arguments.kubeconfig, arguments.nodes)
    else:
        {"setup": setup, "programs": toolchain.build, "where": where}[arguments.command]()


if __name__ == "__main__":
    main()
