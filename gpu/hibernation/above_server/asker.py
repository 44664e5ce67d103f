"""Stands for a tree below the server: has root's program start it, hands on signals, ends as it ended.

For the server it is what ``inside.outside`` is elsewhere: killing it kills the tree, and when the
server dies the tree is told. Run by its path and without ``site``, as that.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import socket
import sys
from pathlib import Path
from typing import Any

#: Starting a process takes milliseconds; a busy machine more.
_PATIENCE_S = 30.0
#: A process of the machine outside: inside its number means nothing.
_OF_OUTSIDE = ("JPY_PARENT_PID",)


def main(arguments: list[str]) -> int:
    """Stand for the tree until it ends; its status is ours."""
    # The packages are not on the path of an isolated interpreter.
    sys.path.insert(0, str(Path(__file__).absolute().parents[4]))
    from gpucommons.gpu.hibernation import folder as layout  # noqa: PLC0415 - see above
    from gpucommons.gpu.hibernation.above_server.orders import Request  # noqa: PLC0415 - see above
    from gpucommons.gpu.hibernation.inside import outside, pid_one  # noqa: PLC0415 - see above

    end = arguments.index("--") if "--" in arguments else len(arguments)
    given = _parser().parse_args(arguments[:end])
    order = b"" if given.what == "wake" else _order(arguments[end + 1 :], given.preload)
    request = Request(
        what=given.what,
        folder=Path(given.folder),
        output=Path(given.output),
        orphaned=given.orphaned,
        close_connections=given.close_connections,
        order_bytes=len(order),
    )
    wakeup = pid_one.hear_signals(pid_one.FORWARDED)
    caller = outside.parent() if given.alive is None else given.alive
    try:
        connection = _connected(Path(given.socket))
        connection.sendall(request.line() + order)
        told = _stay(connection, wakeup, caller)
    except OSError as error:
        told = {"refused": f"Root's program above this server does not answer ({error.strerror})."}
    if "refused" in told:
        layout.make(request.folder)
        return outside.refuse(request.folder, str(told["refused"]))
    code = int(told.get("ended", layout.REFUSED_STATUS))
    return outside.end_as(-code if code < 0 else code << 8)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="asker.py", description=__doc__)
    parser.add_argument("socket")
    parser.add_argument("folder")
    parser.add_argument("what", choices=("run", "wake"))
    parser.add_argument("--output", required=True)
    parser.add_argument("--orphaned", choices=("end", "save"), default="end")
    parser.add_argument("--close-connections", action="store_true")
    parser.add_argument("--preload", help="a library that every process of the tree loads")
    parser.add_argument("--alive", type=int, help="a descriptor that ends with who asked")
    return parser


def _order(command: list[str], preload: str | None) -> bytes:
    from gpucommons.gpu.hibernation.above_server import orders  # noqa: PLC0415 - see main
    from gpucommons.gpu.hibernation.inside import mounts_and_descriptors  # noqa: PLC0415 - see main

    environ = {name: value for name, value in os.environ.items() if name not in _OF_OUTSIDE}
    if preload:
        mounts_and_descriptors.load_first(preload, environ)
    umask = os.umask(0o077)
    os.umask(umask)
    return orders.order(command, str(Path.cwd()), environ, umask)


def _connected(place: Path) -> socket.socket:
    """Only root gets what a kernel's environment holds.

    Raises
    ------
    OSError
        When nobody answers, or somebody else does.
    """
    from gpucommons.gpu.connections.unix_sockets import connect, peer_of  # noqa: PLC0415 - see main

    connection = connect(place, timeout_s=_PATIENCE_S)
    peer = peer_of(connection)
    if peer is None or peer.uid != 0:
        connection.close()
        raise PermissionError(1, "it is not root's")
    return connection


def _stay(connection: socket.socket, wakeup: socket.socket, caller: int | None) -> dict[str, Any]:
    """What is told in the end; nothing where the program itself has ended."""
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        selector.register(wakeup, selectors.EVENT_READ)
        if caller is not None:
            selector.register(caller, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is connection:
                    heard = connection.recv(1 << 14)
                    said += heard
                    if b"\n" in said or not heard:
                        told: dict[str, Any] = json.loads(said.split(b"\n")[0] or b"{}")
                        return told
                elif key.fileobj is wakeup:
                    for number in wakeup.recv(64):
                        connection.sendall(json.dumps({"signal": number}).encode() + b"\n")
                else:
                    connection.sendall(b'{"orphaned": true}\n')
                    return {"ended": 0}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
