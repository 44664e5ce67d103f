"""A kernel that holds GPU memory is kept with it, where a self-test has shown that it can be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kernel_server import KernelServer, Start, criu_of_tests, until

from gpucommons.gpu.shim.building import CannotBuildShim
from gpucommons.labextension.hibernation.keeper import Keeper
from gpucommons.labextension.hibernation.keeping_limits import Limits
from gpucommons.labextension.hibernation.waking import watch
from tests.gpu.fake_cuda import parking_card
from tests.labextension.hibernation.conftest import end_servers
from tests.labextension.hibernation.server_state import record_of

pytestmark = [pytest.mark.criu, pytest.mark.timeout(600)]
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
from gpucommons.labextension.hibernation import ability
ability.find_drivers = lambda: Drivers(cuda=Path({driver!r}), nvml=None)
"""


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
def start(tmp_path: Path, card: parking_card.Card, driver: str) -> Iterator[Start]:
    """A server in the same home, with this GPU."""
    servers: list[KernelServer] = []

    def begin(**environ: str) -> KernelServer:
        own = {"GPUCOMMONS_CRIU": criu_of_tests(), "FAKE_CUDA_CARD": str(card.folder)}
        prelude = PRELUDE.format(driver=driver)
        servers.append(KernelServer(tmp_path / "home", {**own, **environ}, prelude=prelude))
        return servers[-1].start()

    yield begin
    end_servers(servers)


def woken(server: KernelServer) -> dict[str, Any]:
    """What pages are told of the one kernel that came back."""
    found: dict[str, Any] = until(
        lambda: next(iter(server.greeting("kernels")["woken"]), None), "the wake"
    )
    return found


async def test_pages_are_told_why_gpu_memory_is_not_back_and_that_it_is_another_node(
    tmp_path: Path,
) -> None:
    """That it waits for its own GPU the tests of trees show."""
    because = "Its GPU memory is kept. It was on GPU-0, and this is GPU-1."
    made: Any = SimpleNamespace(awake=lambda _within_s: None, why_parked=lambda: because)
    kernel = SimpleNamespace(provisioner=SimpleNamespace(is_woken=True, tree=made))
    server: Any = SimpleNamespace(
        kernel_manager=SimpleNamespace(get_kernel=lambda _id: kernel),
        kernel_websocket_connection_class=object,
    )
    keeper = Keeper.open(
        tmp_path, limits=Limits(), make_tree=lambda _place: made, hindrance=Future()
    )
    assert keeper is not None
    keeper.node = "node-2"
    of_old = record_of("k1").model_copy(update={"node": "node-1"})
    # By the new server, for which a wake takes long.
    keeper.note(of_old.model_copy(update={"node": keeper.node}))

    async def learn_state() -> None:
        """Nothing runs in it."""

    async def speak(_listener: object) -> None:
        """It has kept no words to itself."""

    known: Any = SimpleNamespace(
        kernel_id="k1", renew=lambda _environ: None, speak=speak, learn_state=learn_state
    )
    await watch(server, keeper, known, of_old)
    keeper.close()

    told: Any = keeper.message()["woken"]
    assert [(each["parked"], each["moved"]) for each in told] == [(because, True)]


def test_gpu_memory_is_kept(start: Start, card: parking_card.Card, driver: str) -> None:
    server = start()
    kernel_id = server.open_notebook("a.ipynb")["kernel"]["id"]
    assert server.page(kernel_id).run(TAKE.format(driver=driver)) == ""
    assert card.used_mib == 8

    server.stop()
    assert card.used_mib == 0
    again = start()
    back = woken(again)
    assert (back["parked"], back["moved"]) == ("", False)
    assert again.page(kernel_id).run(READ) == "kept 42"
    assert card.used_mib == 8

    # What keeps to a part of a GPU by a library of its slice is not promised to be kept.
    until(lambda: again.greeting("hello")["keeps"] == "kernels", "the promise")
    interposer = card.folder / "libcuda.so.1"
    interposer.write_bytes(Path(driver).read_bytes())
    (card.folder / "libcuda-real.so.1").symlink_to(driver)
    again.page(kernel_id).run(f"part = ctypes.CDLL({str(interposer)!r})")
    until(lambda: again.greeting("hello")["keeps"] != "kernels", "its end")
