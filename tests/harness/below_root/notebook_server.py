"""A real Jupyter Server of an ordinary account, below root's program, where namespaces are forbidden."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from kernel_server import KernelServer

from below_root import hub

USER = hub.USER


@dataclass
class BelowRoot(KernelServer):
    """As :class:`KernelServer`; ``process`` is its hub, and what lies in its home is its user's."""

    #: What the hub's program starts trees with.
    criu: str = ""

    def start(self) -> KernelServer:
        self.work.mkdir(parents=True, exist_ok=True)
        self._give()
        return super().start()

    def _give(self) -> None:
        for path in (self.home, *self.home.rglob("*")):
            if path.lstat().st_uid != USER:
                os.chown(path, USER, USER, follow_symlinks=False)

    def _command(self) -> list[str]:
        words = [sys.executable, hub.__file__, str(USER), str(self.home), self.criu]
        return [*words, *super()._command()]

    def open_notebook(self, name: str) -> dict[str, Any]:
        (self.work / name).touch()
        os.chown(self.work / name, USER, USER)
        return super().open_notebook(name)

    def program(self) -> psutil.Process:
        """Root's program."""
        assert self.process is not None
        [found] = psutil.Process(self.process.pid).children()
        return found

    def server(self) -> psutil.Process:
        """The notebook server."""
        return next(
            one for one in self.program().children() if one.uids().real == USER and _is_server(one)
        )


def _is_server(process: psutil.Process) -> bool:
    return any("jupyter" in Path(word).name for word in process.cmdline())
