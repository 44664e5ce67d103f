"""Keeping processes alive: start, wait until ready, restart at once, stop in order.

A part that dies is started again the moment its end is seen, later and later if it keeps dying.
Every part is tied to this process by the kernel, so that even a SIGKILL of ``up`` leaves none behind.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx
import psutil

from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.scheduler.up.parts import Part

#: A part that lives this long was well; its next end counts as the first.
WELL_AFTER_S = 10.0
#: Waits before the second, third… restart in a row.
BACK_OFF_S = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
#: A slow or busy machine is no reason to give up; silence is one to say what is waited for.
_READY_S = 300.0
_SAY_AFTER_S = 30.0
_LOOK_EVERY_S = 0.05
#: Looking costs time that a part on a busy machine needs itself: it becomes rarer.
_LOOK_RARELY_S = 1.0
#: A part that dies this often before it was ever ready will not become ready.
_STARTS = 3
_LOG_TAIL_BYTES = 2000
_PR_SET_PDEATHSIG = 1


class PartFailed(RuntimeError):
    """A part of the machine does not start."""


def back_off_s(restarts_in_a_row: int) -> float:
    """How long to wait before a restart."""
    return BACK_OFF_S[min(restarts_in_a_row, len(BACK_OFF_S) - 1)]


class Child:
    """One part, kept alive from :meth:`start` to :meth:`stop`."""

    def __init__(self, part: Part, *, on_start: Callable[[Child], None]) -> None:
        self.part = part
        self.restarts = 0
        self._on_start = on_start
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        process = self._process
        return process.pid if process and process.returncode is None else None

    def facts(self) -> dict[str, Any] | None:
        """How to recognise the process later: a pid alone may be another's by then."""
        if self.pid is None:
            return None
        try:
            return {"pid": self.pid, "created": psutil.Process(self.pid).create_time()}
        except psutil.NoSuchProcess:
            return None

    async def start(self) -> None:
        """Start the part and wait until it is ready.

        Raises
        ------
        PartFailed
            With the end of its log.
        """
        self._keeper = asyncio.create_task(self._keep())
        began, said, pause_s = time.monotonic(), False, _LOOK_EVERY_S
        while not await is_ready(self.part, self.pid):
            if self._keeper.done():
                # It could not even be run; nobody else would ever read why.
                await self._keeper
            waited_s = time.monotonic() - began
            if self.restarts >= _STARTS or waited_s > _READY_S:
                message = f"{self.part.name} does not start. Its log ends:\n{_tail(self.part)}"
                raise PartFailed(message)
            if waited_s > _SAY_AFTER_S and not said:
                self._say(f"takes long to start; its log: {self.part.log}")
                said = True
            await asyncio.sleep(pause_s)
            pause_s = min(_LOOK_RARELY_S, pause_s * 1.1)

    async def wait_ready(self) -> None:
        """Wait until it serves again after a restart, however long that takes."""
        while not await is_ready(self.part, self.pid):  # noqa: ASYNC110 - it sets no event of ours
            await asyncio.sleep(_LOOK_EVERY_S)

    def stop_restarting(self) -> None:
        """Its next end is wanted."""
        self._stopping = True

    async def wait_ended(self, timeout_s: float) -> None:
        """Wait for its end, but no longer than this."""
        if self._process is not None:
            await asyncio.wait([asyncio.ensure_future(self._process.wait())], timeout=timeout_s)

    async def stop(self) -> None:
        """Ask it to stop, and make it stop."""
        self._stopping = True
        process = self._process
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), self.part.stop_s)
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)

    async def _keep(self) -> None:
        in_a_row = 0
        while not self._stopping:
            began = time.monotonic()
            code = await self._run_once()
            if self._stopping:
                return
            in_a_row = 0 if time.monotonic() - began > WELL_AFTER_S else in_a_row
            wait_s = back_off_s(in_a_row)
            self._say(f"ended with {_exit_text(code)}; starting it again in {wait_s:g} s")
            await asyncio.sleep(wait_s)
            in_a_row += 1
            self.restarts += 1

    async def _run_once(self) -> int:
        try:
            self._process = await self._run()
        except OSError as error:
            message = f"{self.part.name} cannot be started: {error}."
            raise PartFailed(message) from None
        self._on_start(self)
        return await self._process.wait()

    async def _run(self) -> asyncio.subprocess.Process:
        with self.part.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self.part.argv,
                env=dict(self.part.env),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is ours to handle, in order.
                start_new_session=True,
                umask=self.part.umask,
                preexec_fn=_tie_to_parent(self.part.orphan_signal),
            )

    def _say(self, text: str) -> None:
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {self.part.name} {text}\n")
        sys.stderr.flush()


async def is_ready(part: Part, pid: int | None) -> bool:
    """Whether the part serves already; one with nothing to ask is ready when it runs."""
    if pid is None:
        return False
    if part.ready_socket is not None and not await _accepts(str(part.ready_socket)):
        return False
    for url in part.ready_urls:
        if not await _answers(url):
            return False
    return True


async def _accepts(path: str) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


async def _answers(url: str) -> bool:
    try:
        async with httpx.AsyncClient(
            trust_env=False, timeout=5.0, verify=trusted_at(url)
        ) as client:
            return (await client.get(url)).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def end_leftovers(remembered: list[tuple[str, int, float]]) -> list[str]:
    """End what an earlier ``up`` left running; returns the names of what was ended."""
    found = [
        (name, process)
        for name, pid, created in remembered
        if (process := same_process(pid, created))
    ]
    for _, process in found:
        process.terminate()
    _, alive = psutil.wait_procs([process for _, process in found], timeout=5)
    for process in alive:
        process.kill()
    psutil.wait_procs(alive, timeout=5)
    return [name for name, _ in found]


def same_process(pid: int, created: float) -> psutil.Process | None:
    """The process with this pid, unless it is a later one."""
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) < 1
    except psutil.NoSuchProcess:
        return None
    return process if same else None


def _tie_to_parent(orphan_signal: int) -> Callable[[], None] | None:
    if not sys.platform.startswith("linux"):
        return None
    parent = os.getpid()
    # Loaded before the fork: loading is not safe after it.
    libc = ctypes.CDLL(None, use_errno=True)

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, orphan_signal, 0, 0, 0)
        if os.getppid() != parent:
            # It died before the line above.
            os._exit(1)

    return tie


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _tail(part: Part) -> str:
    try:
        content = part.log.read_bytes()
    except OSError:
        return "(no log)"
    return content[-_LOG_TAIL_BYTES:].decode(errors="replace").strip()
