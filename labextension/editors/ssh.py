"""Who comes by ssh works on the notebook's slice: sshd forgets the server's variables, so its sessions get them back.

jupyter-sshd-proxy starts an sshd of the user's own behind a websocket of this server. Here its command is
completed: each session begins with this module as a program, which reads the variables where they are,
at the notebook server itself. They stand in no file and on no command line, for a token is among them.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import psutil

from gpucommons.labextension.terminal_path import shell_command

#: Debian's and others' place, which is not on everybody's path.
_PLACES = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/lib/ssh"])
_KEYS = "AuthorizedKeysFile "
_SFTP = "internal-sftp"
_SFTP_PLACES = "/usr/lib/openssh:/usr/libexec/openssh:/usr/lib/ssh:/usr/libexec"


def offer(server: Any) -> None:
    """Before jupyter-server-proxy, which comes later by its name, asks what is to be served."""
    program = shutil.which("sshd", path=_PLACES)
    if program is None or find_spec("jupyter_sshd_proxy") is None:
        return
    from jupyter_sshd_proxy import setup_sshd  # noqa: PLC0415 - optional

    try:
        entry = completed(setup_sshd(), program)
    except (OSError, CalledProcessError) as error:
        server.log.warning("nobody can come by ssh: %s", error)
        return
    asked = server.config.ServerProxy
    # What an admin configured under this name stays.
    asked.servers = {"sshd": entry, **asked.get("servers", {})}


def completed(entry: Mapping[str, Any], program: str) -> dict[str, Any]:
    """With our way into a session, and by keys alone: its port is open to everybody of this machine."""
    _, *options = entry["command"]
    keys = [path for one in options if one.startswith(_KEYS) for path in one.split()[1:]]
    begin = shlex.join([sys.executable, "-I", "-m", __spec__.name, str(os.getpid()), *keys])
    ours = ["-o", f"ForceCommand {begin}", "-o", "PasswordAuthentication no"]
    ours += ["-o", "KbdInteractiveAuthentication no"]
    # By this a session knows its key, see `does_anything`.
    ours += ["-o", "ExposeAuthInfo yes"]
    return {**entry, "command": [program, *options, *ours]}


def variables(of_server: Mapping[str, str], of_session: Mapping[str, str]) -> dict[str, str]:
    """The server's, with what sshd says of the connection."""
    tells = ("DISPLAY", "TERM")
    own = {k: v for k, v in of_session.items() if k in tells or k.startswith("SSH_")}
    return {**of_server, **own}


def does_anything(shown: str, lines: Iterable[str]) -> bool:
    """Whether a key, as sshd tells it, was let in for any command: one may be for a backup alone, and
    sshd runs ours in the place of the command that stands before it.
    """
    keys = {line.split()[-1] for line in shown.splitlines() if line.startswith("publickey ")}
    known = [line.strip() for line in lines if not line.strip().startswith("#")]
    before = [line.partition(key)[0] for key in keys for line in known if key in line]
    return bool(before) and not any("command=" in one.lower() for one in before)


def _lines(paths: Iterable[str]) -> Iterator[str]:
    """Of the files of keys, as sshd finds them."""
    user = pwd.getpwuid(os.getuid())
    for path in paths:
        place = path.replace("%h", user.pw_dir).replace("%u", user.pw_name)
        with suppress(OSError):
            found = Path(user.pw_dir, place.replace("%U", str(user.pw_uid)))
            yield from found.read_text(errors="replace").splitlines()


def _shown(environ: Mapping[str, str]) -> str:
    with suppress(OSError):
        return Path(environ.get("SSH_USER_AUTH", "")).read_text(errors="replace")
    return ""


def command(asked: str, environ: Mapping[str, str]) -> Sequence[str]:
    """What a client asked for; without anything a shell, as Lab's terminals have it."""
    shell = environ["SHELL"]
    if asked == _SFTP:
        found = shutil.which("sftp-server", path=_SFTP_PLACES)
        if found is None:
            sys.exit(
                "Files need sftp-server, which is not installed here: scp -O copies without it."
            )
        return [found]
    if asked:
        return [shell, "-c", asked]
    return shell_command(environ, programs=Path(sys.executable).parent) or [shell]


def main() -> None:
    """Become what was asked for."""
    pid = int(sys.argv[1])
    server = next((one for one in psutil.Process().parents() if one.pid == pid), None)
    if server is None:
        sys.exit(
            "The notebook server that this sshd belonged to has ended: connect to the new one."
        )
    if not does_anything(_shown(os.environ), _lines(sys.argv[2:])):
        sys.exit(
            "This key is not for work on a notebook: take one that stands in authorized_keys without a"
            " command of its own."
        )
    environ = variables(server.environ(), os.environ)
    environ.setdefault("SHELL", pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh")
    asked = environ.pop("SSH_ORIGINAL_COMMAND", "")
    words = command(asked, environ)
    os.execvpe(words[0], list(words), environ)  # noqa: S606 - what a user asked for, by their own key


if __name__ == "__main__":
    main()
