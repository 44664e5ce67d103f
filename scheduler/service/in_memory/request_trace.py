"""What a request asks for bears the request's trace, so that whoever decides it can go on with that."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.gpu.log_lines import TRACEPARENT
from gpucommons.scheduler.core.model.intents import Action, Submit


def of_request(action: Action) -> Action:
    """The action, with the trace of the request that is answered at present, if that has one."""
    traceparent = TRACEPARENT.get()
    if not traceparent or not isinstance(action, Submit):
        return action
    return replace(action, traceparent=traceparent)
