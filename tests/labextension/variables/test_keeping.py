"""Real kernels store their variables and other kernels load them; what cannot be is named."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from jupyter_client.manager import AsyncKernelManager

from gpucommons.labextension.variables import asking
from gpucommons.labextension.variables.folders import Folders, StoredVariables
from gpucommons.labextension.variables.keeper import Bounds, VariableKeeper, variables_report
from gpucommons.labextension.variables.loading import Loaded, load

NOW_MS = 1_800_000_000_000
IDS = ("018f0000-0000-4000-8000-000000000001", "018f0000-0000-4000-8000-000000000002")
NOTEBOOK = """
import math
import numpy as np
from collections import OrderedDict

class Point:
    def __init__(self, x): self.x = x
    def moved(self): return Point(self.x + step)

step = 5
def twice(value): return 2 * value + step
numbers = np.arange(1000)
same = numbers
point = Point(7)
deep = {"p": point, "f": lambda v: v + step, "o": OrderedDict(a=1)}
stream = (each for each in range(3))
handle = open("/dev/null", "w")
"""


class Kernel:
    """A kernel as the server knows it, and what only the test asks of it."""

    def __init__(self, manager: AsyncKernelManager) -> None:
        self.manager = manager
        self.kernel_spec = manager.kernel_spec
        self.execution_state = "idle"

    def client(self) -> Any:
        return self.manager.client()

    async def is_alive(self) -> bool:
        return await self.manager.is_alive()

    async def run(self, code: str, **expressions: str) -> dict[str, Any]:
        client = self.client()
        client.start_channels(iopub=False, stdin=False, hb=False, control=False)
        try:
            asked = client.execute(code, user_expressions=expressions)
            while True:
                reply = await client.get_shell_msg(timeout=60)
                if reply["parent_header"].get("msg_id") == asked:
                    break
        finally:
            client.stop_channels()
        assert reply["content"]["status"] == "ok", reply["content"]
        found = reply["content"]["user_expressions"]
        return {name: one["data"]["text/plain"] for name, one in found.items()}


class Kernels:
    def __init__(self, *kernels: Kernel) -> None:
        self.known = dict(zip(IDS, kernels, strict=False))

    def list_kernel_ids(self) -> list[str]:
        return list(self.known)

    def get_kernel(self, kernel_id: str) -> Kernel:
        return self.known[kernel_id]


@pytest_asyncio.fixture
async def kernels(tmp_path: Path) -> AsyncIterator[tuple[Kernel, Kernel]]:
    """Two, started at once."""
    managers = [AsyncKernelManager(kernel_name="python3") for _ in range(2)]
    await asyncio.gather(*(one.start_kernel(cwd=str(tmp_path)) for one in managers))
    try:
        yield Kernel(managers[0]), Kernel(managers[1])
    finally:
        await asyncio.gather(*(one.shutdown_kernel(now=True) for one in managers))


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "state", owner="ann")


def keeper(folders: Folders, *kernels: Kernel, **bounds: Any) -> VariableKeeper:
    async def notebooks() -> dict[str, str]:
        return {IDS[0]: "analysis.ipynb"}

    return VariableKeeper(
        kernels=Kernels(*kernels),
        notebooks=notebooks,
        folders=folders,
        bounds=Bounds(**{"seconds": 30.0, **bounds}),
        owner="ann",
        server_name="",
        now_ms=lambda: NOW_MS,
    )


async def keep(folders: Folders, kernel: Kernel, **bounds: Any) -> StoredVariables:
    (stored,) = await keeper(folders, kernel, **bounds).keep()
    return stored


async def loaded(folders: Folders, kernel: Kernel) -> Loaded:
    return await load(folders, IDS[0], kernel, now_ms=NOW_MS, seconds=30.0)


async def test_a_fresh_kernel_has_the_old_ones_variables_back(
    kernels: tuple[Kernel, Kernel], folders: Folders
) -> None:
    old, new = kernels
    await old.run(NOTEBOOK)
    before = await old.run("", names="sorted(globals())")
    stored = await keep(folders, old)
    assert (await old.run("", names="sorted(globals())")) == before
    assert set(stored.kept) == {"Point", "twice", "step", "numbers", "same", "point", "deep"}
    assert {one.name: one.because for one in stored.lost} == {
        "stream": "TypeError: cannot pickle 'generator' object",
        "handle": "it holds an open file",
    }
    assert stored.path == "analysis.ipynb"

    answer = await loaded(folders, new)

    assert set(answer.loaded) == set(stored.kept)
    assert answer.failed == ()
    assert await new.run(
        "step = 100",
        aliases="same is numbers",
        total="int(numbers.sum())",
        own="type(point) is Point",
        nested="type(deep['p']) is Point",
        # What was written in the notebook sees its names as they are now.
        function="twice(1)",
        method="point.moved().x",
        modules="math.floor(np.float64(2.5))",
    ) == {
        "aliases": "True",
        "total": "499500",
        "own": "True",
        "nested": "True",
        "function": "102",
        "method": "107",
        "modules": "2",
    }


STRANGE = """
import weakref, threading

class Thing: pass
class Liar:
    @property
    def __class__(self): raise RuntimeError("none of yours")
class Sizeless:
    def __sizeof__(self): raise KeyboardInterrupt

gone = Thing()
proxy = weakref.proxy(gone)
del gone
liar, sizeless, lock = Liar(), Sizeless(), threading.Lock()
lock.acquire()
globals()[7] = 2
model = [1, 2, 3]
"""


async def test_a_value_that_cannot_be_looked_at_costs_no_other(
    kernels: tuple[Kernel, Kernel], folders: Folders
) -> None:
    """A dead weak reference raises wherever it is touched, and a name may be a number."""
    old, new = kernels
    await old.run(STRANGE)
    stored = await keep(folders, old)
    assert {"model", "lock", "Thing"} <= set(stored.kept)
    assert "proxy" in {one.name for one in stored.lost}
    await loaded(folders, new)
    assert await new.run("", model="model", held="lock.locked()") == {
        "model": "[1, 2, 3]",
        "held": "True",
    }


async def test_files_are_the_users_alone(kernels: tuple[Kernel, Kernel], folders: Folders) -> None:
    await kernels[0].run("secret = 1")
    await keep(folders, kernels[0])
    found = list(folders.root.rglob("*"))
    assert len(found) == 4
    for each in [folders.root, *found]:
        expected = 0o700 if each.is_dir() else 0o600
        assert each.stat().st_mode & 0o777 == expected, each


async def test_what_is_too_large_is_named_and_the_small_is_kept(
    kernels: tuple[Kernel, Kernel], folders: Folders
) -> None:
    await kernels[0].run("large = bytes(3_000_000); small = 3")
    stored = await keep(folders, kernels[0], most_bytes=1_000_000)
    assert stored.kept == ("small",)
    (lost,) = stored.lost
    assert (lost.name, lost.because) == ("large", "it is larger than the room that is left")
    assert stored.size_bytes < 1000
    report = variables_report([stored])
    assert report is not None
    assert (report.variables, report.variables_lost) == (1, 1)


async def test_what_never_ends_costs_only_itself_and_what_comes_after(
    kernels: tuple[Kernel, Kernel], folders: Folders
) -> None:
    code = """
class Endless:
    def __sizeof__(self): return 1 << 40
    def __reduce__(self):
        while True: pass
first = 1
endless = Endless()
"""
    await kernels[0].run(code)
    stored = await keep(folders, kernels[0], seconds=3.0)
    assert set(stored.kept) == {"Endless", "first"}
    assert [(one.name, one.because) for one in stored.lost] == [
        ("endless", "there was no time left")
    ]


async def test_a_kernel_that_never_becomes_idle_is_left_alone(
    kernels: tuple[Kernel, Kernel], folders: Folders, caplog: pytest.LogCaptureFixture
) -> None:
    busy = kernels[0]
    busy.execution_state = "busy"
    assert await keeper(folders, busy, seconds=0.2).keep() == []
    assert "analysis.ipynb was still running a cell" in caplog.text
    assert folders.listed() == []


class Asked:
    """A kernel whose state is that of the times that it was asked."""

    def __init__(self, busy_times: int) -> None:
        self.busy_times, self.asked = busy_times, 0

    @property
    def execution_state(self) -> str:
        self.asked += 1
        return "busy" if self.asked <= self.busy_times else "idle"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Of those who ask: it goes on when they sleep."""
    found = SimpleNamespace(now_s=1_000.0)

    async def sleep(seconds: float) -> None:
        found.now_s += seconds

    monkeypatch.setattr(asking, "time", SimpleNamespace(monotonic=lambda: found.now_s))
    monkeypatch.setattr(asking, "asyncio", SimpleNamespace(sleep=sleep))
    return found


async def test_a_cell_that_is_about_to_end_is_waited_for_and_one_that_runs_on_is_not(
    clock: SimpleNamespace,
) -> None:
    # A page has its answer before the server hears that the kernel is idle.
    assert await asking.is_idle(Asked(busy_times=10))
    assert clock.now_s == pytest.approx(1_000.5)
    assert not await asking.is_idle(Asked(busy_times=10**9))
    assert clock.now_s == pytest.approx(1_001.5, abs=0.1)
    assert not await asking.is_idle(Asked(busy_times=10**9), until_s=clock.now_s + 0.2)
    assert clock.now_s == pytest.approx(1_001.7, abs=0.15)


async def test_an_empty_kernel_leaves_nothing(
    kernels: tuple[Kernel, Kernel], folders: Folders
) -> None:
    await kernels[0].run("import math")
    assert await keeper(folders, kernels[0]).keep() == []
    assert list(folders.root.iterdir()) == []


async def test_unpickling_that_fails_is_told_and_costs_no_other(
    kernels: tuple[Kernel, Kernel], folders: Folders
) -> None:
    old, new = kernels
    code = """
class Odd:
    def __setstate__(self, state): raise SystemExit("not here")
odd = Odd()
odd.x = 1
good = [1, 2]
taken = "old"
damaged = "x" * 100
"""
    await old.run(code)
    await keep(folders, old)
    for file in (folders.root / IDS[0]).iterdir():
        if file.stat().st_size > 100 and b"x" * 100 in file.read_bytes():
            file.write_bytes(b"x")
    await new.run("taken = 'new'")
    answer = await loaded(folders, new)
    assert set(answer.loaded) == {"Odd", "good"}
    assert {one.name: one.because for one in answer.failed} == {
        "odd": "SystemExit: not here",
        "taken": "this kernel has a variable of that name",
        "damaged": "its file is damaged",
    }
    assert await new.run("", good="good", taken="taken") == {"good": "[1, 2]", "taken": "'new'"}
    kept = folders.one(IDS[0])
    assert kept is not None
    assert kept.loaded_ms == NOW_MS


async def test_a_file_that_is_a_link_or_open_to_others_is_not_loaded(
    kernels: tuple[Kernel, Kernel], folders: Folders, tmp_path: Path
) -> None:
    old, new = kernels
    await old.run("linked = 'l' * 50; opened = 'o' * 50")
    await keep(folders, old)
    for file in (folders.root / IDS[0]).iterdir():
        content = file.read_bytes()
        if b"l" * 50 in content and file.name.isdigit():
            file.rename(tmp_path / "elsewhere")
            file.symlink_to(tmp_path / "elsewhere")
        elif b"o" * 50 in content and file.name.isdigit():
            file.chmod(0o644)
    answer = await loaded(folders, new)
    assert answer.loaded == ()
    assert {one.name for one in answer.failed} == {"linked", "opened"}
    told = {one.name: one.because for one in answer.failed}
    assert told["opened"] == "its file is not this account's alone"


async def test_another_python_loads_nothing(
    kernels: tuple[Kernel, Kernel], folders: Folders
) -> None:
    old, new = kernels
    await old.run("x = 1")
    await keep(folders, old)
    index = folders.root / IDS[0] / "index.jsonl"
    text = index.read_text(encoding="utf-8")
    index.write_text(text.replace('"python": [3, ', '"python": [2, '), encoding="utf-8")
    answer = await loaded(folders, new)
    assert answer.loaded == ()
    assert "they were stored by Python 2." in answer.because


async def test_a_kernel_that_ends_while_it_loads_is_told(
    kernels: tuple[Kernel, Kernel], folders: Folders
) -> None:
    old, new = kernels
    code = """
class Deadly:
    def __reduce__(self): return (__import__("os")._exit, (3,))
deadly = Deadly()
"""
    await old.run(code)
    await keep(folders, old)
    answer = await loaded(folders, new)
    assert answer.because == "the kernel ended while it loaded them"


async def test_a_kernel_without_dill_is_lent_the_servers(
    kernels: tuple[Kernel, Kernel], folders: Folders
) -> None:
    old, new = kernels
    hide = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name == "dill": raise ImportError(name)
sys.meta_path.insert(0, Hide())
del Hide
"""
    for one in kernels:
        await one.run(hide)
    await old.run("f = lambda v: v + 1")
    assert (await keep(folders, old)).kept == ("f",)
    assert (await loaded(folders, new)).loaded == ("f",)
    assert await new.run("", f="f(1)") == {"f": "2"}


def test_the_servers_copy_of_dill_is_found() -> None:
    assert (Path(asking.dill_at()) / "__init__.py").is_file()
