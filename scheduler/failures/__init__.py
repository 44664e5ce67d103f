"""Why a job failed, in one line: the last error of its log, with its place and a likely remedy.

Pure: from the end of a log and an exit status. ``last_error`` finds the line, ``remedies`` knows what helps
against the common ones, ``headline`` puts both into the sentence that every screen shows.
"""

from __future__ import annotations

from gpucommons.scheduler.failures.headline import TAIL_BYTES, Failure, headline

__all__ = ["TAIL_BYTES", "Failure", "headline"]
