"""What a parked notebook asks of the scheduler while its cells wait, and what becomes of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucommons.labextension.parking.holding import NOT_BEGUN, Holding
from gpucommons.labextension.parking.parking import LONGEST_PAUSE_S, LOOK_EVERY_S, Parking
from gpucommons.scheduler.client.call import Call
from gpucommons.scheduler.errors import NotFound, TooManyRequests
from gpucommons.scheduler.models import LeaseView

LEASE = "018f0000-0000-7000-8000-000000000001"


class Kernels:
    """On the host, or not."""

    def __init__(self) -> None:
        self.on_gpu = False
        #: Why they cannot be parked.
        self.stay: str | None = None
        #: Why they cannot have their GPU back.
        self.lost: str | None = None

    def park(self, driver: Path) -> str | int:
        self.on_gpu = self.stay is not None
        return self.stay or 512

    def unpark(self, driver: Path) -> str | None:
        self.on_gpu = self.lost is None
        return self.lost


class Page:
    """A page that is connected to a kernel."""

    channels = True
    subprotocol = None

    def __init__(self, kernel_id: str = "k1") -> None:
        self.kernel_id = kernel_id
        self.session = self
        self.begun: list[str] = []
        self.told: list[dict[str, Any]] = []
        self.is_broken = False

    def msg(self, kind: str, content: dict[str, Any], parent: dict[str, Any]) -> dict[str, Any]:
        return {"header": {"msg_type": kind}, "content": content, "parent_header": parent}

    def write_message(self, message: str) -> None:
        self.told.append(json.loads(message))

    def handle_incoming_message(self, message: str) -> None:
        if self.is_broken:
            raise ConnectionError("no such kernel")
        self.begun.append(json.loads(message)["content"])

    def errors(self) -> list[str]:
        return [
            one["content"]["evalue"] for one in self.told if one["header"]["msg_type"] == "error"
        ]


class Line:
    """A scheduler with one parked notebook, and the server that follows it."""

    def __init__(self) -> None:
        self.state = "parked"
        self.asked: list[bool] = []
        self.looks = 0
        #: How often it said that it is parked, or why not.
        self.said = 0
        #: Something of it is still seen on the GPU.
        self.is_seen = False
        self.slept: list[float] = []
        self.refuses: Exception | None = None
        self.is_gone = False
        #: Called before each pause: what happens meanwhile.
        self.meanwhile: Callable[[], None] = lambda: None
        self.runner = asyncio.Runner()
        self.follows: asyncio.Task[None] | None = None
        self.kernels = Kernels()
        self.holding = Holding(is_on=True)
        self.server = Parking(
            scheduler=self,  # type: ignore[arg-type]
            lease_id=LEASE,
            driver=Path("/driver"),
            kernels=self.kernels,
            holding=self.holding,
            is_busy=lambda: False,
            take_lease=lambda _lease: None,
            sleep=self.sleep,
            is_parked=True,
        )

    def view(self) -> LeaseView:
        return LeaseView(
            id=LEASE, user="ann", server_name="", team="vision", pool="gpu", state=self.state,
            milli_gpu=1000, requested_ms=1, since_ms=1,
        )  # fmt: skip

    async def send(self, call: Call[LeaseView]) -> LeaseView:
        if call.path.endswith("/unpark"):
            self._ask(call)
        elif call.path.endswith("/parked"):
            self.said += 1
            self.state = "active" if call.body.because else "parked"  # type: ignore[union-attr]
            if self.is_seen:
                self.state = "parking"
        elif call.path.endswith("/park"):
            self.state = "parking"
        elif call.method == "GET":
            self.looks += 1
            if self.is_gone:
                raise NotFound("no such lease")
        return self.view()

    def _ask(self, call: Call[LeaseView]) -> None:
        waits: bool = call.body.waits  # type: ignore[union-attr]
        self.asked.append(waits)
        if self.refuses is not None:
            raise self.refuses
        if (waits, self.state) == (True, "parked"):
            self.state = "waiting"
        elif (waits, self.state) == (False, "waiting"):
            self.state = "parked"

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.meanwhile()
        await asyncio.sleep(0)

    def cell(self, code: str, page: Page) -> None:
        header = {"msg_type": "execute_request", "msg_id": code}
        assert self.holding.takes(page, json.dumps({"header": header, "content": code}))

    def follow(self, until: Callable[[], bool]) -> None:
        async def met() -> None:
            self.follows = self.follows or asyncio.create_task(self.server.run())
            while not until():  # noqa: ASYNC110 - it follows what the fake scheduler is asked
                await asyncio.sleep(0)

        self.runner.run(asyncio.wait_for(met(), 60))


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    line.server.heard(line.view())
    with line.runner:
        yield line


def test_it_asks_for_its_turn_once_however_long_it_waits(line: Line) -> None:
    page = Page()
    line.cell("first", page)
    line.cell("second", page)
    line.follow(lambda: line.looks >= 600)
    assert line.asked == [True]
    assert set(line.slept) == {LOOK_EVERY_S}

    line.state = "active"
    line.follow(lambda: bool(page.begun))
    # Once more: the answer says that its slice is open.
    assert line.asked == [True, True]
    assert page.begun == ["first", "second"]
    assert line.kernels.on_gpu


def test_who_took_it_out_of_the_line_does_not_leave_its_cell_behind(line: Line) -> None:
    line.cell("x", Page())
    line.follow(lambda: line.looks >= 2)
    line.state = "parked"
    line.follow(lambda: line.state == "waiting")
    assert line.asked == [True, True]


def test_who_waits_no_more_says_so_once_and_asks_anew_with_the_next_cell(line: Line) -> None:
    line.cell("x", Page())
    line.follow(lambda: line.looks >= 1)
    line.holding.interrupted("k1")
    line.follow(lambda: line.state == "parked")
    assert line.asked == [True, False]
    line.cell("y", Page())
    line.follow(lambda: line.looks >= 5)
    assert line.asked == [True, False, True]


def test_a_refused_wish_is_told_again_ever_more_rarely_and_not_lost(line: Line) -> None:
    line.refuses = TooManyRequests("too many orders")
    line.cell("x", Page())
    line.follow(lambda: len(line.asked) >= 8)
    assert line.slept[:7] == [1.0, 2.0, 4.0, 8.0, LONGEST_PAUSE_S, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    line.refuses = None
    line.follow(lambda: line.state == "waiting")


def test_a_lease_that_is_gone_is_asked_for_once_a_cell_and_each_is_told(line: Line) -> None:
    line.refuses, line.is_gone = NotFound("no such lease"), True
    page = Page()
    for times, code in enumerate(("x", "y"), 1):
        line.cell(code, page)
        line.follow(lambda times=times: len(page.errors()) == times)
    line.runner.run(asyncio.sleep(0.05))
    assert (len(line.asked), line.looks, line.slept) == (2, 2, [])
    assert page.errors()[0] == (
        "Its place is gone, and with it its GPU: the scheduler no longer knows it. Restart the server to"
        " wait in line anew."
    )


def test_what_cannot_have_its_gpu_back_says_once_that_it_is_parked_however_long_that_takes(
    line: Line,
) -> None:
    page = Page()
    line.kernels.lost, line.is_seen, line.state = "its GPU is another one", True, "active"
    line.cell("x", page)
    line.follow(lambda: line.looks >= 300)
    assert (line.said, line.state) == (1, "parking")
    assert page.errors() == ["its GPU is another one"]

    line.state = "parked"
    line.follow(lambda: line.looks > 300)
    line.kernels.lost = None
    line.cell("y", page)
    line.follow(lambda: line.state == "waiting")
    line.state = "active"
    line.follow(lambda: page.begun == ["y"])


@pytest.mark.parametrize("state", ["parked", "waiting"])
def test_a_server_that_begins_in_the_place_of_a_parked_one_runs_nothing_on_its_gpu(
    line: Line, state: str
) -> None:
    line.server.is_parked = line.holding.is_on = False
    # A kernel was faster than the first look at the lease.
    line.kernels.on_gpu, line.state = True, state
    line.server.heard(line.view())
    line.follow(lambda: line.holding.is_on and line.server.is_parked)
    assert not line.kernels.on_gpu
    # Nobody waits: the cells of the server before went with it.
    line.follow(lambda: line.state == "parked")

    page = Page()
    line.cell("x", page)
    line.follow(lambda: line.state == "waiting")
    assert page.begun == []
    line.state = "active"
    line.follow(lambda: page.begun == ["x"])
    assert line.kernels.on_gpu


def test_a_server_that_was_told_nothing_yet_looks_whether_it_is_parked() -> None:
    line = Line()
    line.server.is_parked = line.holding.is_on = False
    line.kernels.on_gpu = True
    with line.runner:
        line.follow(lambda: line.server.is_parked)
    assert line.holding.is_on
    assert not line.kernels.on_gpu


def test_what_was_heard_late_parks_nobody(line: Line) -> None:
    line.server.is_parked = line.holding.is_on = False
    line.kernels.on_gpu, late = True, line.view()
    line.state = "active"
    line.server.heard(late)
    line.runner.run(line.server.step())
    assert line.looks == 1
    assert line.kernels.on_gpu
    assert not line.holding.is_on


def test_a_cell_that_came_while_it_could_not_be_parked_does_not_undo_the_next_time(
    line: Line,
) -> None:
    line.server.is_parked = line.holding.is_on = False
    line.state, page = "parking", Page()
    line.kernels.stay = "it has memory of a kind that cannot move"
    real = line.kernels.park

    def park_while_a_cell_comes(driver: Path) -> str | int:
        line.cell("x", page)
        return real(driver)

    line.kernels.park = park_while_a_cell_comes  # type: ignore[method-assign]
    line.server.heard(line.view())
    line.follow(lambda: line.state == "active")
    assert page.begun == ["x"]

    line.kernels.stay, line.kernels.park = None, real  # type: ignore[method-assign]
    line.state = "parking"
    line.server.heard(line.view())
    line.follow(lambda: line.state == "parked")
    line.runner.run(line.server.step())
    assert (line.asked, line.server.is_parked) == ([], True)


def test_a_page_that_fails_keeps_no_other_cell_from_its_turn_and_its_own_is_answered() -> None:
    holding, broken, page = Holding(is_on=True), Page(), Page()
    broken.is_broken = True
    for one, code in ((broken, "a"), (page, "b"), (broken, "c"), (page, "d")):
        header = {"msg_type": "execute_request", "msg_id": code}
        holding.takes(one, json.dumps({"header": header, "content": code}))
    holding.release()
    assert page.begun == ["b", "d"]
    assert broken.errors() == [NOT_BEGUN, NOT_BEGUN]


def test_what_waits_for_another_kernel_stays_also_where_a_page_cannot_be_told() -> None:
    holding, gone, page, other = Holding(is_on=True), Page(), Page(), Page("k2")
    for one in (gone, page, other):
        header = {"msg_type": "execute_request", "msg_id": one.kernel_id}
        holding.takes(one, json.dumps({"header": header, "content": one.kernel_id}))
    gone.write_message = None  # type: ignore[assignment, method-assign] # raises when called
    holding.refuse("it ended", "k1")
    assert page.errors() == ["it ended"]
    assert holding.kernel_ids == {"k2"}
    holding.release()
    assert other.begun == ["k2"]
