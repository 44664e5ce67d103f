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

from gpucommons.gpu.slices.slices import format_gpus
from gpucommons.labextension.live.shown_jobs import SendsCalls
from gpucommons.labextension.parking.holding import NOTICE, Holding
from gpucommons.scheduler.client import calls, parking_calls
from gpucommons.scheduler.errors import NotFound, SchedulerError
from gpucommons.scheduler.models import LeaseView, ParkedReport, ParkRequest, UnparkRequest

log = logging.getLogger("gpucommons.labextension")

#: Between two questions whether its turn has come.
LOOK_EVERY_S = 1.0
#: After what failed again and again.
LONGEST_PAUSE_S = 15.0
AT_WORK = "a kernel is at work"
_RUNS = frozenset({"active", "warned"})
#: A server's lease is so only while it is parked.
_GPU_IS_OTHERS = frozenset({"parked", "waiting"})
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
    #: A cell waits.
    _wants: bool = False
    #: What the scheduler was told of that last; None where it may not have heard.
    _told: bool | None = False
    _host_mib: int = 0
    #: The scheduler knows that all is on the host, and waits for its node to see that.
    _is_said: bool = False

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
        size = format_gpus(self._lease.milli_gpu)
        return f"Parked: this cell waits for {size}, and goes on by itself."

    def _wanted(self) -> None:
        self._wants = True
        self._news.set()

    def _not_wanted(self) -> None:
        self._wants = False
        self._news.set()

    async def run(self) -> None:
        """Follow the lease."""
        self._news.set()
        pause_s = LOOK_EVERY_S
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self.step()
            except NotFound:
                # It is not asked for again but for the next cell, which hears the same.
                self._refuse("the scheduler no longer knows it")
            except Exception as error:
                if isinstance(error, SchedulerError):
                    log.warning("parking goes on when the scheduler answers: %s", error)
                else:
                    log.exception("parking goes on")
                await self._later(pause_s)
                pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)
            else:
                pause_s = LOOK_EVERY_S

    async def _later(self, pause_s: float = LOOK_EVERY_S) -> None:
        await self.sleep(pause_s)
        self._news.set()

    async def step(self) -> None:
        """What is due by what is known; raises what the scheduler refuses."""
        if self._lease is None:
            # News come with the next change alone, and it may be parked already.
            await self._look()
        if self.is_parked or self.holding.is_on:
            await self._while_parked(self._state)
        elif self._state == "parking":
            await self._park()
        elif self._state in _GPU_IS_OTHERS:
            await self._began_in_its_place()

    @property
    def _state(self) -> str:
        return "" if self._lease is None else self._lease.state

    async def _park(self) -> None:
        if self.is_busy():
            await self._say(AT_WORK)
            return
        # From here on no cell can begin.
        self.holding.is_on = True
        done = await asyncio.to_thread(self.kernels.park, self.driver)
        if isinstance(done, str):
            self._wants = False
            self.holding.release()
            await self._say(done)
            return
        self.is_parked, self._host_mib = True, done
        await self._say("")

    async def _began_in_its_place(self) -> None:
        """The server that was parked has ended, and its pod started this one: it has no GPU either."""
        await self._look()  # what was heard may be from before it had its GPU again
        if self._state not in _GPU_IS_OTHERS:
            return
        self.holding.is_on = True
        done = await asyncio.to_thread(self.kernels.park, self.driver)
        if isinstance(done, str):
            log.warning("a kernel began on a GPU that others have: %s", done)
        self.is_parked = not isinstance(done, str)
        # The cells that waited went with their server.
        self._told = self._state == "waiting"
        await self._while_parked(self._state)

    async def _say(self, because: str) -> None:
        self._is_said = False
        report = ParkedReport(because=because, host_mib=0 if because else self._host_mib)
        self._took(await self.scheduler.send(parking_calls.report_parked(self.lease_id, report)))
        self._is_said = not because

    async def _while_parked(self, state: str) -> None:
        if state == "parked":
            self._told = False  # whoever took it out of the line
        if state in _RUNS or self._wants is not self._told:
            await self._tell()
            if self._state in _RUNS:
                await self._take_back()
                return
        elif state == "parking" and not self._is_said:
            # It may have said so to a scheduler that was just going.
            await self._say("")
        elif self._wants or state == "parking":
            # Each order is kept for good, and bounded; a look is not.
            await self._look()
        await self._then()

    async def _then(self) -> None:
        if self._state in _RUNS:
            self._news.set()
        elif self._lease is not None and self._state in {"ended", "hibernated", "released"}:
            self._refuse(self._lease.ended_text or "it ended")
        elif self._wants or self._state == "parking":
            await self._later()

    def _refuse(self, why: str) -> None:
        self._wants = self._told = False
        self.holding.refuse(ENDED.format(text=why.rstrip(".")))

    async def _tell(self) -> None:
        """Ask for its turn, or for none any more; where it has its GPU, its slice is open then."""
        wants, self._told = self._wants, None
        told = parking_calls.unpark(self.lease_id, UnparkRequest(waits=wants))
        try:
            self._took(await self.scheduler.send(told))
        except NotFound:
            await self._look()
        self._told = wants

    async def _look(self) -> None:
        self._took(await self.scheduler.send(calls.lease(self.lease_id)))

    async def _take_back(self) -> None:
        """It has its GPU again."""
        stays = await asyncio.to_thread(self.kernels.unpark, self.driver)
        self._wants = self._told = False
        if stays is None:
            self.is_parked = False
            self.holding.release()
            return
        # Nothing may run, and others may have the GPU again.
        self.holding.refuse(stays)
        self._is_said = False
        again = ParkRequest(text="its memory could not go back to its GPU")
        self._took(await self.scheduler.send(parking_calls.park(self.lease_id, again)))

    def _took(self, lease: LeaseView) -> None:
        self._lease = lease
        if lease.state == "parking":
            self._news.set()
        self.take_lease(lease)
