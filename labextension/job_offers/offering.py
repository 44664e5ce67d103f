"""Looks at the slice and at cells that run, asks the scheduler what a job would have, and tells the tabs.

What is said stays true as long as it stands there: an offer is taken back when its cell is over, or when
no job would start any more. While no job would start at once, nothing is offered.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpucommons.gpu.linux.state_home import state_home
from gpucommons.labextension.clock import wall_clock_ms
from gpucommons.labextension.job_offers import when_to_offer
from gpucommons.labextension.job_offers.offered_before import Memory
from gpucommons.labextension.job_offers.progress import Pace, read
from gpucommons.labextension.job_offers.when_to_offer import Cell, Look, Told
from gpucommons.labextension.live.fanout import Fanout, Message
from gpucommons.labextension.live.feed import Feed
from gpucommons.labextension.live.sampler import Sampler
from gpucommons.labextension.live.shown_jobs import SendsCalls
from gpucommons.labextension.outputs.cell_run import CellRun
from gpucommons.labextension.outputs.listening import Outputs
from gpucommons.labextension.submission import Desk
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.errors import BadRequest, NotFound, SchedulerError, Unavailable
from gpucommons.scheduler.launchers import PLAIN
from gpucommons.scheduler.models import JobRequest, LeaseView, RoleRequest
from gpucommons.scheduler.scripts import frameworks, proposed_launcher
from gpucommons.scheduler.threads.repeating import repeat_task

#: As events, so that a page that shows none loads nothing for them.
OFFER, OVER = "job-offer", "job-offer-over"
LOOK_S = 15.0
#: The scheduler is asked once in so long, before and after an offer.
_ASK_EVERY_MS = 300_000
#: The end of what a cell printed: the newest bar is there.
_TAIL = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """A job in place of a cell."""

    cell: Cell
    gpus: int
    #: A GPU for each worker; else all for one.
    joins: bool
    team: str

    def request(self) -> JobRequest:
        """What the form of *Train* would ask for, as far as its place in the queue goes."""
        count, each = (self.gpus, 1) if self.joins else (1, self.gpus)
        role = RoleRequest(count=count, milli_gpu=each * 1000, command=["true"])
        return JobRequest(name="make-it-a-job", team=self.team, roles=[role])


@dataclass(kw_only=True)
class Offering:
    """Offers of one server."""

    scheduler: SendsCalls
    sampler: Sampler
    fanout: Fanout
    #: A file below the server's folder by its path there; refuses what is none.
    locate: Callable[[str], Path]
    memory: Memory
    #: Cells that run, of kernels that are busy.
    runs: Callable[[], Iterable[CellRun]]
    #: Knows this server's lease.
    feed: Feed
    now_ms: Callable[[], int] = wall_clock_ms
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    #: A day of them; a pool's setting is no longer than that.
    _looks: deque[Look] = field(default_factory=lambda: deque(maxlen=int(86_400 / LOOK_S)))
    _paces: dict[str, Pace] = field(default_factory=dict)
    _offer: Offer | None = None
    _asked_ms: int = 0

    @classmethod
    def of(
        cls,
        server: Any,
        scheduler: SendsCalls | None,
        outputs: Outputs | None,
        **parts: Any,
    ) -> Offering | None:
        """Of a server with files, whose cells are known."""
        root = getattr(server.contents_manager, "root_dir", "")
        if scheduler is None or outputs is None or not root:
            return None
        desk = Desk(root=Path(root), home=Path.home(), kernel_spec=server.kernel_spec_manager)
        return cls(
            scheduler=scheduler,
            locate=desk.locate,
            memory=Memory(state_home(os.environ) / "gpucommons"),
            runs=outputs.running,
            **parts,
        )

    async def run(self) -> None:
        """Until cancelled."""
        await repeat_task(self.step, what="a look for a job", pause=lambda: self.sleep(LOOK_S))

    async def step(self) -> None:
        """One look."""
        now_ms, lease = self.now_ms(), self.feed.lease
        since_ms = self._looks[-1].at_ms if self._looks else now_ms - int(LOOK_S * 1000)
        self._looks.append(Look(at_ms=now_ms, percent=self.sampler.mean_percent(since_ms)))
        if lease is None or lease.slice is None or lease.job_offer_after_s <= 0:
            # No slice, or its pool never offers: what its cells do is nobody's business here.
            self._paces.clear()
            self._take_back()
            return
        runs = {one.id: one for one in self.runs() if one.path.endswith(".ipynb")}
        self._see(runs, now_ms)
        if self._offer is not None:
            await self._look_after(self._offer, lease, now_ms)
        elif runs and len(self.fanout) and now_ms - self._asked_ms >= _ASK_EVERY_MS:
            told, cells = await asyncio.to_thread(self._read, list(runs.values()))
            after_ms = lease.job_offer_after_s * 1000
            cell = when_to_offer.whose(cells, self._looks, told, after_ms, now_ms)
            if cell is not None:
                await self._offer_job(cell, lease, now_ms)

    async def refuse(self, path: str) -> None:
        """*No thanks*: never again for this notebook."""
        file = await asyncio.to_thread(self.locate, path)
        await asyncio.to_thread(self.memory.refuse, str(file))
        self._take_back()

    def _read(self, runs: list[CellRun]) -> tuple[Told, list[Cell]]:
        """What was told before, and cells; a notebook that is no file can be no job."""
        cells = []
        for run in runs:
            with suppress(BadRequest, NotFound):
                cells.append(
                    Cell(
                        run=run.id,
                        kernel_id=run.kernel_id,
                        path=run.path,
                        file=str(self.locate(run.path)),
                        begun_ms=run.begun_ms,
                    )
                )
        return self.memory.read(), cells

    def _see(self, runs: dict[str, CellRun], now_ms: int) -> None:
        self._paces = {one: self._paces.get(one) or Pace() for one in runs}
        for key, run in runs.items():
            self._paces[key].see(read(_tail(run), now_ms - run.begun_ms), now_ms)

    async def _offer_job(self, cell: Cell, lease: LeaseView, now_ms: int) -> None:
        self._asked_ms = now_ms
        joins = await asyncio.to_thread(_joins, Path(cell.file))
        for gpus in when_to_offer.sizes(lease.milli_gpu, joins=joins):
            offer = Offer(cell=cell, gpus=gpus, joins=joins, team=lease.team)
            if await self._would_start(offer):
                await asyncio.to_thread(self.memory.offered, cell.kernel_id, now_ms)
                self._offer = offer
                self._say(offer, lease, now_ms, is_new=True)
                return

    async def _look_after(self, offer: Offer, lease: LeaseView, now_ms: int) -> None:
        if offer.cell.run not in self._paces:
            self._take_back()
        elif now_ms - self._asked_ms >= _ASK_EVERY_MS:
            self._asked_ms = now_ms
            if await self._would_start(offer):
                self._say(offer, lease, now_ms, is_new=False)
            else:
                self._take_back()

    def _say(self, offer: Offer, lease: LeaseView, now_ms: int, *, is_new: bool) -> None:
        cell, gpus, held = offer.cell, offer.gpus, lease.milli_gpu
        data: dict[str, Any] = {"path": cell.path, "gpus": gpus, "joins": offer.joins}
        left_ms = self._paces[cell.run].left_ms(now_ms)
        done_ms = when_to_offer.done_by_ms(cell, left_ms, gpus, held, now_ms)
        if done_ms is not None and left_ms is not None:
            times = when_to_offer.faster(gpus, held)
            data |= {"done_ms": done_ms, "here_ms": now_ms + left_ms, "times": times}
        self._tell(OFFER, {**data, "is_new": is_new})

    async def _would_start(self, offer: Offer) -> bool:
        """Whether the scheduler would start this job now; refused by a rule, it would not."""
        try:
            quote = await self.scheduler.send(calls.quote_job(offer.request()))
        except Unavailable:
            raise
        except SchedulerError:
            return False
        return quote.starts_now

    def _take_back(self) -> None:
        if self._offer is not None:
            self._tell(OVER, {"path": self._offer.cell.path})
            self._offer = None

    def _tell(self, kind: str, data: Message) -> None:
        event = {"number": 0, "at_ms": self.now_ms(), "kind": kind, "by": "", "text": ""}
        self.fanout.send({"type": "events", "events": [{**event, "data": dict(data)}]})


def _joins(file: Path) -> bool:
    """Whether a notebook, as it is saved, starts a framework that joins several workers."""
    with file.open("rb") as opened:
        script = frameworks.read_script(file.name, opened.read(frameworks.MAX_BYTES + 1))
    return proposed_launcher.of_script(file.name, script).launcher != PLAIN


def _tail(run: CellRun) -> str:
    texts = (
        one["content"]["text"] for one in run.messages[-8:] if one["header"]["msg_type"] == "stream"
    )
    return "".join(text[-_TAIL:] for text in texts)
