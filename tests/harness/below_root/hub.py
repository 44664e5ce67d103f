"""What a hub of root's does with a server: ``hub.py UID HOME CRIU COMMAND…``.

Namespaces of users are forbidden to it and all below it (to users alone, where ``FORBIDS`` says so), and
what lies closed in root's home is let pass. It stands for the server: signals go on to it, and it ends
with it. CRIU ``-`` is none.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).absolute().parents[3]))

from benchmarks.hibernation import forbidding, forbidding_users, hostile
from benchmarks.tour.other_account import let_pass_to
from gpucommons.gpu.hibernation.above_server import orders, standing
from gpucommons.gpu.hibernation.criu import criu_at
from gpucommons.gpu.hibernation.inside import calls
from gpucommons.gpu.hibernation.inside.tree_settings import Account

USER = hostile.USER
#: To whom user namespaces are forbidden: ``users``, else all.
FORBIDS = "BELOW_ROOT_FORBIDS"
#: So many are enough to see that there is a limit.
MOST_TREES = 6


def main(uid: int, home: Path, place: str, command: list[str]) -> int:
    """Be the server's hub until the server ends."""
    wanted = [Path(sys.base_prefix)] + ([] if place == "-" else [Path(place)])
    let_pass_to(wanted)
    if os.environ.get(FORBIDS) == "users":
        forbidding_users.forbid_to_users()
    else:
        forbidding.forbid()
    criu = None if place == "-" else criu_at(Path(place))
    account = Account(uid=uid, gid=uid)
    words = ("/bin/false",) if criu is None else criu.command
    above = standing.prepare(account, home, words, home.parent)
    above.words = (*above.words, "--most-trees", str(MOST_TREES))

    def preexec() -> None:
        above.stand()
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        calls.no_new_privileges()
        above.stay_below()

    server = subprocess.Popen(
        command,
        preexec_fn=preexec,  # noqa: PLW1509 - one thread
        env={**os.environ, orders.VARIABLE: str(above.place)},
        start_new_session=True,
    )
    above.let_go()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: server.send_signal(number))
    return server.wait()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4:]))
