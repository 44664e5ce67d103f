"""How many kernels a notebook gets that several pages open at the same moment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from jupyter_server.services.contents.manager import ContentsManager
from jupyter_server.services.kernels.kernelmanager import MappingKernelManager
from jupyter_server.services.sessions.sessionmanager import SessionManager

from gpucommons.labextension.activity.session_starts import begin_one_by_one


class Kernels(MappingKernelManager):
    """Kernels that take their time to start, which a test lets pass."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[str] = []
        self.ready = asyncio.Event()
        self.fails = False

    async def start_kernel(self, **_asked: Any) -> str:  # type: ignore[override] # as its async one does
        self.begun.append(f"k-{len(self.begun)}")
        kernel_id = self.begun[-1]
        await self.ready.wait()
        if self.fails:
            self.fails = False
            raise OSError("no process")
        return kernel_id

    def cwd_for_path(self, path: str, **_asked: Any) -> str:
        return path

    def kernel_model(self, kernel_id: str) -> dict[str, str]:
        return {"id": kernel_id}

    def __contains__(self, kernel_id: str) -> bool:
        return kernel_id in self.begun


@pytest.fixture
def kernels() -> Kernels:
    return Kernels()


@pytest.fixture
def sessions(kernels: Kernels) -> Any:
    one: Any = SessionManager(kernel_manager=kernels, contents_manager=ContentsManager())
    begin_one_by_one(one)
    return one


async def _opened(sessions: Any, kernels: Kernels, *paths: str) -> list[Any]:
    """Requests of pages that all came before the first kernel was there."""
    asked = [
        asyncio.ensure_future(sessions.create_session(path=path, name=path, type="notebook"))
        for path in paths
    ]
    for _ in range(5):
        await asyncio.sleep(0)
    kernels.ready.set()
    return await asyncio.gather(*asked, return_exceptions=True)


async def test_pages_that_open_one_notebook_at_once_get_the_same_session(
    sessions: Any, kernels: Kernels
) -> None:
    found = await _opened(sessions, kernels, "a.ipynb", "a.ipynb", "a.ipynb")
    assert kernels.begun == ["k-0"]
    assert [each["kernel"]["id"] for each in found] == ["k-0"] * 3
    assert len({each["id"] for each in found}) == 1


async def test_other_notebooks_wait_for_nobody(sessions: Any, kernels: Kernels) -> None:
    asked = asyncio.ensure_future(_opened(sessions, kernels, "a.ipynb", "b.ipynb"))
    await asyncio.sleep(0)
    found = await asked
    assert kernels.begun == ["k-0", "k-1"]
    assert [each["path"] for each in found] == ["a.ipynb", "b.ipynb"]


async def test_after_a_start_that_failed_the_next_page_tries_it(
    sessions: Any, kernels: Kernels
) -> None:
    kernels.fails = True
    failed, found = await _opened(sessions, kernels, "a.ipynb", "a.ipynb")
    assert isinstance(failed, OSError)
    assert found["kernel"]["id"] == "k-1"


async def test_a_session_for_a_kernel_that_runs_is_made_as_asked(
    sessions: Any, kernels: Kernels
) -> None:
    kernels.begun.append("k-9")
    found = await sessions.create_session(path="a.ipynb", name="", type="notebook", kernel_id="k-9")
    assert found["kernel"]["id"] == "k-9"
