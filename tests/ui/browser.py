"""A Chromium for the UI tests, from wherever this machine has one.

Looked for in this order: the variable ``CHROMIUM``, ``chromium`` or ``google-chrome`` on the path,
the npm package ``@sparticuz/chromium``. The last one is unpacked once below ``build/`` together
with the libraries it needs, so a machine without a browser runs the UI tests too.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright import async_api, sync_api

ROOT = Path(__file__).resolve().parents[2]
_UNPACKED = ROOT / "build" / "chromium"
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--headless=new",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_UNPACK = "import('@sparticuz/chromium').then(c => c.default.executablePath())"
_UNPACK_S = 120
#: The package's own file names folders that exist in Lambda only. Open Sans first: pictures look
#: alike on every machine.
_FONTS = f"""<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{_UNPACKED}/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>{_UNPACKED}/fonts-cache</cachedir>
  <alias binding="strong"><family>sans-serif</family><prefer><family>Open Sans</family></prefer></alias>
  <alias binding="strong"><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias>
</fontconfig>
"""


@dataclass(frozen=True, kw_only=True)
class Chromium:
    """A browser's program and the environment it needs."""

    path: str
    env: dict[str, str] = field(default_factory=dict)

    def arguments(self) -> dict[str, object]:
        """What ``playwright.chromium.launch`` is given, blocking or asyncio."""
        return {
            "executable_path": self.path,
            "args": list(_ARGUMENTS),
            "env": {**os.environ, **self.env},
        }


def find_chromium() -> Chromium:
    """The browser of this machine; raises ``FileNotFoundError`` with what to do."""
    named = os.environ.get("CHROMIUM")
    if named:
        return Chromium(path=named)
    for program in ("chromium", "google-chrome"):
        found = shutil.which(program)
        if found:
            return Chromium(path=found)
    return _from_npm()


async def launch(chromium: async_api.BrowserType) -> async_api.Browser:
    """Start it headless."""
    return await chromium.launch(**find_chromium().arguments())  # type: ignore[arg-type] # a plain dict


@contextmanager
def kept_browser() -> Iterator[sync_api.Browser]:
    """The browser of this process, started by whoever is first: a start computes for seconds.

    What was opened in it is closed at the end of the block, the browser itself by :func:`end_browser`.
    """
    if not _started or not _started[0].is_connected():
        end_browser()
        _started.append(_ends.enter_context(_launched()))
    browser = _started[0]
    yield browser
    for context in list(browser.contexts):
        context.close()


def end_browser() -> None:
    """Playwright holds this thread's event loop while its browser runs: nobody else can use asyncio."""
    _started.clear()
    _ends.close()


_started: list[sync_api.Browser] = []
_ends = ExitStack()


@contextmanager
def _launched() -> Iterator[sync_api.Browser]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - who asks for no browser needs none

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(**find_chromium().arguments())  # type: ignore[arg-type] # a plain dict
        yield started
        if started.is_connected():
            started.close()


def _from_npm() -> Chromium:
    if not (ROOT / "node_modules" / "@sparticuz" / "chromium").is_dir():
        message = "No browser: run `make setup`, or set CHROMIUM to a Chromium's path."
        raise FileNotFoundError(message)
    _UNPACKED.mkdir(parents=True, exist_ok=True)
    done = _UNPACKED / ".complete"
    with (_UNPACKED / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            _unpack()
            (_UNPACKED / "fonts.conf").write_text(_FONTS)
            done.touch()
    return Chromium(
        path=str(_UNPACKED / "chromium"),
        env={
            "LD_LIBRARY_PATH": str(_UNPACKED / "al2023" / "lib"),
            "FONTCONFIG_FILE": str(_UNPACKED / "fonts.conf"),
        },
    )


def _unpack() -> None:
    node = shutil.which("node") or str(ROOT / ".venv" / "bin" / "node")
    subprocess.run(
        [node, "--input-type=module", "--eval", _UNPACK],
        check=True,
        cwd=ROOT,
        timeout=_UNPACK_S,
        # The package unpacks its libraries only where it believes to be in a Lambda function,
        # and always into the folder for temporary files.
        env={
            **os.environ,
            "TMPDIR": str(_UNPACKED),
            "AWS_EXECUTION_ENV": "AWS_Lambda_nodejs20.x",
        },
    )
