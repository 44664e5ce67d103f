from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_server.services.kernels.kernelmanager import MappingKernelManager

from gpucommons.labextension.activity.kernel_status import tell_work_from_looks


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
