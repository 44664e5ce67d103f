"""A real server with real kernels on a pretended card is parked, and its next cell waits for its GPU."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kernel_server import KernelServer, criu_of_tests, until

from gpucommons.gpu.shim.building import CannotBuildShim
from gpucommons.scheduler.models import LeaseView
from tests.gpu.fake_cuda import parking_card
from tests.labextension.hibernation.conftest import end_servers

pytestmark = [pytest.mark.timeout(600)]
LEASE = "018f0000-0000-7000-8000-000000000001"
TAKE = """
import ctypes
cuda = ctypes.CDLL({driver!r})
context, address, size = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t(8 << 20)
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), size) == 0
assert cuda.cuMemcpyHtoD_v2(address, b"kept", ctypes.c_size_t(4)) == 0
x = 41
"""
READ = """
found = ctypes.create_string_buffer(4)
assert cuda.cuMemcpyDtoH_v2(found, address, ctypes.c_size_t(4)) == 0
print(found.raw.decode(), x + 1)
"""
#: The server finds this driver as it would find NVIDIA's.
PRELUDE = """
from pathlib import Path
from gpucommons.gpu.shim.drivers import Drivers
from gpucommons.labextension.parking import ability
from gpucommons.labextension.activity import reporter
ability.find_drivers = lambda: Drivers(cuda=Path({driver!r}), nvml=None)
reporter.REPORT_EVERY_S = 1.0
"""


class Scheduler(ThreadingHTTPServer):
    """As much of it as one parked notebook meets: what it says of the lease, the test says."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.state = "active"
        self.turn = threading.Event()
        self.said: list[dict[str, Any]] = []
        #: Each is an order: kept for good, and counted.
        self.orders: list[bool] = []
        self.looks = 0
        self.parks = False
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def view(self) -> str:
        return LeaseView(
            id=LEASE, user="ann", server_name="", team="vision", pool="gpu", state=self.state,
            milli_gpu=1000, requested_ms=1, since_ms=1,
        ).model_dump_json()  # fmt: skip

    def hear(self, path: str, body: dict[str, Any]) -> None:
        if self.turn.is_set() and self.state == "waiting":
            self.state = "active"
        if path.endswith("/activity"):
            self.parks = bool(body.get("parks"))
        elif path.endswith("/parked") and self.state == "parking":
            self.said.append(body)
            self.state = "active" if body["because"] else "parked"
        elif path.endswith(f"/leases/{LEASE}"):
            self.looks += 1
        elif path.endswith("/unpark"):
            self.orders.append(body["waits"])
            if not body["waits"]:
                self.state = "parked" if self.state == "waiting" else self.state
            elif self.state in {"parked", "waiting"}:
                self.state = "active" if self.turn.is_set() else "waiting"
        elif path.endswith("/park"):
            self.state = "parking"


class _Handler(BaseHTTPRequestHandler):
    server: Scheduler

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        self.server.hear(self.path, body)
        known = "/leases/" in self.path or self.path.startswith("/v1/lease?")
        text = self.server.view().encode() if known else b'{"code":"NotFound","message":"?"}'
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_POST = _answer  # noqa: N815 - names of http.server


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> str:
    try:
        return str(parking_card.build(tmp_path_factory.mktemp("parking-driver")))
    except CannotBuildShim as error:
        if os.environ.get("REQUIRE_COMPILER"):
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def card(tmp_path: Path) -> parking_card.Card:
    return parking_card.Card(tmp_path / "card")


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    with Scheduler() as served:
        yield served
        served.shutdown()


@pytest.fixture(
    params=["plain", pytest.param("in a tree", marks=pytest.mark.criu)],
)
def server(
    tmp_path: Path,
    card: parking_card.Card,
    driver: str,
    scheduler: Scheduler,
    request: pytest.FixtureRequest,
) -> Iterator[KernelServer]:
    in_tree = request.param == "in a tree"
    environ = {
        **({"GPUCOMMONS_CRIU": criu_of_tests()} if in_tree else {}),
        "FAKE_CUDA_CARD": str(card.folder),
        "GPUCOMMONS_URL": scheduler.url,
        "GPUCOMMONS_LEASE_ID": LEASE,
        "GPUCOMMONS_HIBERNATE_KERNELS": str(int(in_tree)),
        "JUPYTERHUB_USER": "ann",
    }
    made = KernelServer(tmp_path / "home", environ, prelude=PRELUDE.format(driver=driver))
    yield made.start()
    end_servers([made])


def park(scheduler: Scheduler) -> None:
    until(lambda: scheduler.parks, "the word that it can be parked")
    scheduler.state = "parking"
    until(lambda: scheduler.said, "the answer of the server")


def test_its_gpu_is_free_and_its_next_cell_waits_for_its_turn_and_goes_on(
    server: KernelServer, scheduler: Scheduler, card: parking_card.Card, driver: str
) -> None:
    kernel_id = server.open_notebook("a.ipynb")["kernel"]["id"]
    page = server.page(kernel_id)
    assert page.run(TAKE.format(driver=driver)) == ""
    park(scheduler)
    assert scheduler.said[0]["because"] == ""
    assert card.used_mib == 0

    first, second = page.send(READ), page.send("print('after', x)")
    notice = "Parked: this cell waits for 1 GPU, and goes on by itself."
    page.printed(first, until=notice)
    until(lambda: scheduler.looks >= 3, "looks whether its turn has come")
    assert len(scheduler.orders) < scheduler.looks
    assert card.used_mib == 0
    scheduler.turn.set()

    assert page.until_done(first).strip() == "kept 42"
    assert page.until_done(second).strip() == f"{notice}\nafter 41"
    assert card.used_mib == 8


def test_who_interrupts_a_cell_that_waits_is_told_and_it_stays_parked(
    server: KernelServer, scheduler: Scheduler, card: parking_card.Card, driver: str
) -> None:
    kernel_id = server.open_notebook("a.ipynb")["kernel"]["id"]
    page = server.page(kernel_id)
    page.run(TAKE.format(driver=driver))
    park(scheduler)
    waits = page.send(READ)
    until(lambda: scheduler.state == "waiting", "the place in line")
    server.ask("POST", f"api/kernels/{kernel_id}/interrupt")
    assert "Parked: Interrupted before it began: the notebook stays parked." in page.until_done(
        waits
    )
    until(lambda: scheduler.state == "parked", "its leaving the line")
    scheduler.turn.set()
    assert page.run(READ).endswith("kept 42")


def test_what_cannot_be_parked_goes_on_and_is_said(
    server: KernelServer, scheduler: Scheduler, card: parking_card.Card, driver: str
) -> None:
    kernel_id = server.open_notebook("a.ipynb")["kernel"]["id"]
    page = server.page(kernel_id)
    busy = TAKE.format(driver=driver) + "\nimport os; os.environ['FAKE_CUDA_MIG'] = '1'\n"
    page.run(busy + "ctypes.CDLL(None).setenv(b'FAKE_CUDA_MIG', b'1', 1)")
    park(scheduler)
    assert scheduler.said[0]["because"]
    assert scheduler.state == "active"
    assert page.run(READ) == "kept 42"
    assert card.used_mib == 8


def test_a_kernel_that_works_is_not_parked(
    server: KernelServer, scheduler: Scheduler, card: parking_card.Card, driver: str
) -> None:
    kernel_id = server.open_notebook("a.ipynb")["kernel"]["id"]
    page = server.page(kernel_id)
    page.run(TAKE.format(driver=driver))
    runs = page.send("print('begun', flush=True)\nimport time\nwhile True: time.sleep(0.05)")
    page.printed(runs, until="begun")
    park(scheduler)
    assert scheduler.said[0]["because"] == "a kernel is at work"
    assert card.used_mib == 8
