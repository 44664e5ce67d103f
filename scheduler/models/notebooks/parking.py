"""Parking a notebook: its GPU memory goes to the host, its GPU is others', and its server lives on.

The culler or its user asks; the server's extension does it and says what came of it, and asks for the
GPU again when a cell is to run.
"""

from __future__ import annotations

from pydantic import Field

from gpucommons.scheduler.models.fields import Line, Model


class ParkRequest(Model):
    """*Park*: move the GPU memory of a server's kernels to the host."""

    #: Why, in the culler's words.
    text: Line = ""


class ParkedReport(Model):
    """What came of it."""

    #: Why it was not done, as a clause; empty = its memory is on the host.
    because: Line = ""
    #: What that took of the machine's own memory.
    host_mib: int = Field(default=0, strict=True, ge=0, le=1 << 30)


class UnparkRequest(Model):
    """A cell wants to run; with ``waits`` false nobody waits any longer, and it stays parked."""

    waits: bool = True
