"""Lab's terminals find the programs of the server's environment, ``gpucommons`` among them.

A server that its hub started opens login shells, and on most systems ``/etc/profile`` sets PATH anew:
what the hub or an image put there is gone. The files that a login shell reads are read as ever, and
who configured a shell of their own has that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

#: The folder of the programs, for what starts the shell; unset before anybody sees the prompt.
PROGRAMS = "GPUCOMMONS_PROGRAMS"
_BASH_FILE = Path(__file__).with_name("terminal.bash")
#: They read a file of the interactive shell's own besides, and take PATH as they find it.
_LOGIN_THEN_INTERACTIVE = frozenset({"ash", "dash", "fish", "ksh", "sh", "zsh"})
_AFTER_LOGIN = f'exec env -u {PROGRAMS} PATH="${PROGRAMS}:$PATH" "$SHELL"'


def shell_command(environ: Mapping[str, str], *, programs: Path) -> Sequence[str] | None:
    """The command of a terminal; None for a shell of which is not known how it is told."""
    shell = environ.get("SHELL") or "/bin/sh"
    start = ["env", f"{PROGRAMS}={programs}", f"SHELL={shell}", shell]
    kind = Path(shell).name
    if kind == "bash":
        return [*start, "--rcfile", str(_BASH_FILE)]
    if kind in _LOGIN_THEN_INTERACTIVE:
        return [*start, "-l", "-c", _AFTER_LOGIN]
    return None
