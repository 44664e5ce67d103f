"""``gpucommons idle park``: ask a notebook's server to park it, and hear what came of it."""

from __future__ import annotations

import argparse
import time

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.admin import HOLDING, notebook
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import show
from gpucommons.scheduler.client import SchedulerClient, calls, parking_calls
from gpucommons.scheduler.models.text.state_words import state_words

_STATES = (*HOLDING, "parking", "parked")
#: Its server does it within seconds; the scheduler gives up after minutes.
_WITHIN_S = 90.0
_LOOK_S = 0.5


def park(arguments: argparse.Namespace) -> int:
    """Move a notebook's GPU memory to the host, and give its GPU to others; 1 where it stays."""
    request = models.ParkRequest(text=arguments.reason)
    with connect(arguments) as scheduler:
        asked = notebook(scheduler, arguments.lease, _STATES)
        lease = _settled(scheduler, scheduler.send(parking_calls.park(asked, request)))
    because = "" if lease.idle is None else lease.idle.not_parked
    text = f"{lease.user}: {state_words(lease.state)}"
    if lease.state == "parked":
        text += ": its GPU is free for others until its user runs a cell"
    elif lease.state in HOLDING and because:
        text = f"{lease.user}: not parked, and goes on with its GPU: {because}"
    elif lease.state == "parking":
        text = f"{lease.user}: still being parked; ask again to hear what came of it"
    show(lease, text, output=arguments.output)
    return 0 if lease.state in ("parking", "parked") else 1


def _settled(scheduler: SchedulerClient, lease: models.LeaseView) -> models.LeaseView:
    """Parked, or with what stood in the way."""
    until_s = time.monotonic() + _WITHIN_S
    while lease.state == "parking" and time.monotonic() < until_s:
        time.sleep(_LOOK_S)
        lease = scheduler.send(calls.lease(lease.id))
    return lease
