from __future__ import annotations

import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_server.services.kernels.kernelmanager import MappingKernelManager

from gpucommons.labextension.activity.collector import Collector, collector_for
from gpucommons.labextension.activity.kernel_status import tell_work_from_looks
from gpucommons.labextension.activity.process_load import Meter
from gpucommons.labextension.activity.processes import Process
from gpucommons.scheduler.models import KernelActivity


@pytest.fixture
def kernels() -> Any:
    """Those of a server whose admin passes over a kind of their own."""
    made: Any = MappingKernelManager
    kernels = made()
    kernels.untracked_message_types = [*kernels.untracked_message_types, "our_probe"]
    tell_work_from_looks(kernels)
    return kernels


@pytest.mark.parametrize(
    "kind", ["create_subshell_request", "history_request", "kernel_info_request", "our_probe"]
)
def test_a_page_that_connects_to_a_kernel_is_no_activity(kernels: Any, kind: str) -> None:
    assert not kernels.track_message_type(kind)


@pytest.mark.parametrize("kind", ["execute_request", "comm_msg"])
def test_what_computes_is(kernels: Any, kind: str) -> None:
    assert kernels.track_message_type(kind)


def test_other_kernel_managers_are_taken_as_they_are() -> None:
    plain = SimpleNamespace()
    tell_work_from_looks(plain)
    assert vars(plain) == {}


async def test_what_somebody_does_in_an_editor_is_the_time_of_its_last_activity() -> None:
    def look() -> Mapping[int, Process]:
        return {os.getpid(): Process(pid=os.getpid(), parent=0, created_s=1, cpu_s=0, io_bytes=0)}

    sent = [0]
    collector = Collector(
        kernels=MappingKernelManager(),  # type: ignore[no-untyped-call] # not typed there
        terminals=dict,
        meter=Meter(look=look),
        sent_ms=lambda: sent[0],
        now_ms=lambda: 9_000,
    )
    assert (await collector.collect()).kernels == []
    sent[0] = 5_000
    wanted = KernelActivity(kind="process", name="editor", busy=False, last_active_ms=5_000)
    assert (await collector.collect()).kernels == [wanted]
    # An open tab sends no more than signs of life: the time stands still.
    assert (await collector.collect()).kernels == [wanted]


async def test_a_server_is_not_idle_since_before_it_was_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its slice is held while it starts: for a minute, on a busy machine."""
    monkeypatch.setattr("gpucommons.labextension.activity.collector.wall_clock_ms", lambda: 7_000)
    server = SimpleNamespace(
        kernel_manager=MappingKernelManager(),  # type: ignore[no-untyped-call] # not typed there
        web_app=SimpleNamespace(settings={}),
    )
    found = (await collector_for(server, {}, lambda: 0).collect()).kernels
    assert max(one.last_active_ms or 0 for one in found) >= 7_000
