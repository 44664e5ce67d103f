"""Parks the notebook when the scheduler asks, and takes its GPU back for the first cell that comes.

The scheduler's word on the lease is what counts. While it says ``active`` the kernels have their GPU;
from ``parking`` on cells are held; what the server says of itself is said again until it is heard. A
scheduler that is away changes nothing: what is parked stays, and cells wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.labextension.live.shown_jobs import SendsCalls
from gpucommons.labextension.parking.holding import NOTICE, Holding
from gpucommons.scheduler.client import calls, parking_calls
from gpucommons.scheduler.errors import NotFound, SchedulerError
from gpucommons.scheduler.models import LeaseView, ParkedReport, ParkRequest, UnparkRequest

log = logging.getLogger("gpucommons.labextension")

#: Between two questions whether its turn has come.
LOOK_EVERY_S = 1.0
AT_WORK = "a kernel is at work"
_RUNS = frozenset({"active", "warned"})
#: It ended under its parked notebook: by an admin, a fence, or a server that took its place.
ENDED = "Its place is gone, and with it its GPU: {text}. Restart the server to wait in line anew."


class ParksKernels(Protocol):
    """The kernels of this server, in a thread of their own."""

    def park(self, driver: Path) -> str | int:
        """All of them; MiB that the machine's memory grew by, or why not."""
        ...

    def unpark(self, driver: Path) -> str | None:
        """All of them; a sentence where one does not have it back."""
        ...


@dataclass(kw_only=True)
class Parking:
    """Of one lease, until cancelled."""

    scheduler: SendsCalls
    lease_id: str
    driver: Path
    kernels: ParksKernels
    holding: Holding
    #: Whether a kernel runs a cell now.
    is_busy: Callable[[], bool]
    take_lease: Callable[[LeaseView], None]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    #: Its memory is on the host.
    is_parked: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _lease: LeaseView | None = None
    #: A cell waits, or has just been interrupted.
    _wants: bool = False
    _gave_up: bool = False
    _host_mib: int = 0

    def __post_init__(self) -> None:
        self.holding.notice = self._notice
        self.holding.when_held = self._wanted
        self.holding.when_none_waits = self._not_wanted

    def heard(self, lease: LeaseView | None) -> None:
        """What the scheduler says of the lease, whoever asked it."""
        if lease is not None and lease.id == self.lease_id:
            self._lease = lease
            self._news.set()

    def _notice(self) -> str:
        if self._lease is None:
            return NOTICE
        size = format_milli_gpu(self._lease.milli_gpu)
        return f"Parked: this cell waits for {size} GPU, and goes on by itself."

    def _wanted(self) -> None:
        self._wants, self._gave_up = True, False
        self._news.set()

    def _not_wanted(self) -> None:
        if self._wants:
            self._wants, self._gave_up = False, True
        self._news.set()

    async def run(self) -> None:
        """Follow the lease."""
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self.step()
            except SchedulerError as error:
                log.warning("parking goes on when the scheduler answers: %s", error)
                await self._later()
            except Exception:
                log.exception("parking goes on")
                await self._later()

    async def _later(self) -> None:
        await self.sleep(LOOK_EVERY_S)
        self._news.set()

    async def step(self) -> None:
        """What is due by what is known; raises what the scheduler refuses."""
        state = "" if self._lease is None else self._lease.state
        if self.is_parked or self.holding.is_on:
            await self._while_parked(state)
        elif state == "parking":
            await self._park()

    async def _park(self) -> None:
        if self.is_busy():
            await self._say(AT_WORK)
            return
        # From here on no cell can begin.
        self.holding.is_on = True
        done = await asyncio.to_thread(self.kernels.park, self.driver)
        if isinstance(done, str):
            self.holding.release()
            await self._say(done)
            return
        self.is_parked, self._host_mib = True, done
        await self._say("")

    async def _say(self, because: str) -> None:
        report = ParkedReport(because=because, host_mib=0 if because else self._host_mib)
        self._took(await self.scheduler.send(parking_calls.report_parked(self.lease_id, report)))

    async def _while_parked(self, state: str) -> None:
        if self._wants or self._gave_up:
            asked = parking_calls.unpark(self.lease_id, UnparkRequest(waits=self._wants))
            lease = await self._asked(asked)
            self._gave_up = False
        elif state == "parking":
            # It may have said so to a scheduler that was just going.
            await self._say("")
            lease = self._lease
        else:
            lease = self._lease
        if lease is None:
            return
        if lease.state in _RUNS:
            await self._take_back(lease)
        elif lease.state in {"ended", "hibernated", "released"}:
            self._wants = False
            self.holding.refuse(ENDED.format(text=(lease.ended_text or "it ended").rstrip(".")))
        elif self._wants or lease.state == "parking":
            await self._later()

    async def _asked(self, call: calls.Call[LeaseView]) -> LeaseView | None:
        try:
            lease = await self.scheduler.send(call)
        except NotFound:
            lease = await self.scheduler.send(calls.lease(self.lease_id))
        self._took(lease)
        return lease

    async def _take_back(self, lease: LeaseView) -> None:
        """It has its GPU again."""
        if not self._wants:
            # Its slice is to be open before its memory is there.
            await self._asked(parking_calls.unpark(self.lease_id, UnparkRequest()))
        stays = await asyncio.to_thread(self.kernels.unpark, self.driver)
        if stays is None:
            self.is_parked = self._wants = False
            self.holding.release()
            return
        # Nothing may run, and others may have the GPU again.
        self._wants = False
        self.holding.refuse(stays)
        again = ParkRequest(text="its memory could not go back to its GPU")
        self._took(await self.scheduler.send(parking_calls.park(self.lease_id, again)))

    def _took(self, lease: LeaseView) -> None:
        self._lease = lease
        if lease.state == "parking":
            self._news.set()
        self.take_lease(lease)
