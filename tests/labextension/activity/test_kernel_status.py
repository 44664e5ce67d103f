"""What a kernel says of itself, and what Jupyter Server makes of it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_client.session import DELIM

from gpucommons.labextension.activity.kernel_status import tell_work_from_looks

CELL, SLIDER, OTHER = None, "s1", "s2"


class Kernel:
    """Its messages go to Jupyter Server, as far as it takes them."""

    def __init__(self) -> None:
        self.execution_state = "idle"
        self._activity_stream = self
        self._recv_callback: Any = self._record
        self.heard: list[str] = []

    def on_recv(self, callback: Any) -> None:
        self._recv_callback = callback

    def _record(self, parts: list[bytes]) -> None:
        self.heard.append(json.loads(parts[2])["msg_type"])
        if self.heard[-1] == "status":
            self.execution_state = json.loads(parts[-1])["execution_state"]

    def says(self, state: str, of: str | None, kind: str = "execute_request") -> str:
        parent = {"msg_type": kind, "subshell_id": of}
        told = ({"msg_type": "status"}, parent, {}, {"execution_state": state})
        self.tells(*told)
        return self.execution_state

    def tells(self, *told: object) -> None:
        self._recv_callback([DELIM, b"", *(json.dumps(one).encode() for one in told)])


@pytest.fixture
def kernel() -> Kernel:
    kernel = Kernel()
    kernels: Any = SimpleNamespace(
        untracked_message_types=[],
        start_watching_activity=lambda _id: None,
        get_kernel=lambda _id: kernel,
        track_message_type=lambda kind: kind in {"execute_request", "comm_msg"},
    )
    tell_work_from_looks(kernels)
    kernels.start_watching_activity("k")
    return kernel


def test_a_cell_that_runs_is_not_over_when_a_slider_beside_it_was_answered(kernel: Kernel) -> None:
    assert kernel.says("busy", CELL) == "busy"
    assert kernel.says("busy", SLIDER) == kernel.says("idle", SLIDER) == "busy"
    assert kernel.says("idle", CELL) == "idle"


def test_a_cell_of_which_only_its_state_is_known_is_not_over_either(kernel: Kernel) -> None:
    kernel.execution_state = "busy"  # It was saved and woken.
    assert kernel.says("busy", SLIDER) == kernel.says("idle", SLIDER) == "busy"
    assert kernel.says("idle", CELL) == "idle"


def test_what_a_slider_computes_is_work_until_the_last_one_is_done(kernel: Kernel) -> None:
    assert kernel.says("busy", SLIDER) == kernel.says("busy", OTHER) == "busy"
    assert kernel.says("idle", SLIDER) == "busy"
    assert kernel.says("busy", CELL) == kernel.says("idle", CELL) == "busy"
    assert kernel.says("idle", OTHER) == "idle"


def test_a_kernel_that_starts_anew_has_nothing_to_do(kernel: Kernel) -> None:
    kernel.says("busy", SLIDER)
    kernel.says("starting", CELL)
    kernel.says("busy", CELL)
    assert kernel.says("idle", CELL) == "idle"


def test_the_greeting_to_a_page_that_opens_is_passed_over_and_output_without_a_cell_is_not(
    kernel: Kernel,
) -> None:
    kernel.tells({"msg_type": "iopub_welcome"}, {}, {}, {"subscription": ""})
    kernel.tells({"msg_type": "stream"}, {}, {}, {"name": "stdout", "text": "of a thread"})
    assert kernel.heard == ["stream"]
