"""The tour's users with accounts of their own, which exist for the tour alone: by root.

The machine's list of accounts is covered by a longer one in a mount namespace of the tour's, and homes
lie in a folder of the tour's. The hub asks for one password instead of PAM; all else is as where
``gpucommons up`` is root's.
"""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.tour.other_account import let_pass_to
from gpucommons.gpu.hibernation.criu import VARIABLE
from gpucommons.gpu.hibernation.inside import calls

#: Of nobody on a usual machine.
_FIRST = 2101
NAMES = ("alice", "bob", "carol")
_LISTS = {
    "/etc/passwd": "{name}:x:{number}:{number}::{home}:/bin/sh",
    "/etc/group": "{name}:x:{number}:",
}
_EXTRA = """
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = {password!r}
c.GpuLocalSpawner.kernels_by_root = {kernels_by_root!r}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What the tour's admin says of root's program above notebook servers."""

    kernels_by_root: bool | None

    def begin(self, folder: Path) -> str:
        """Have accounts with homes below this folder, and a hub that lets them in; their password."""
        password = secrets.token_hex()
        folder.chmod(0o755)
        _make(folder)
        (folder / "state").mkdir(mode=0o711)
        extra = _EXTRA.format(password=password, kernels_by_root=self.kernels_by_root)
        (folder / "state" / "jupyterhub_extra.py").write_text(extra, encoding="utf-8")
        return password


def _make(folder: Path) -> None:
    criu = os.environ.get(VARIABLE)
    let_pass_to([Path(sys.base_prefix), *([] if criu is None else [Path(criu)])])
    calls.unshare(calls.NEWNS)
    calls.make_private()
    for path, line in _LISTS.items():
        text = Path(path).read_text(encoding="utf-8").rstrip()
        more = [
            line.format(name=name, number=_FIRST + at, home=folder / name)
            for at, name in enumerate(NAMES)
        ]
        longer = folder / Path(path).name
        longer.write_text("\n".join([text, *more, ""]), encoding="utf-8")
        longer.chmod(0o644)
        calls.mount(str(longer), path, "none", calls.BIND)
    for at, name in enumerate(NAMES):
        (folder / name).mkdir(mode=0o700)
        os.chown(folder / name, _FIRST + at, _FIRST + at)
