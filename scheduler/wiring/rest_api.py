"""The REST API of a scheduler that was made: its authenticators and its settings.

Apart from the composition root, because a restarted scheduler decides before it has imported this.
"""

from __future__ import annotations

import os
import secrets
from functools import partial
from pathlib import Path

from fastapi import FastAPI

from gpucommons.scheduler.api.app import ApiSettings, create_app
from gpucommons.scheduler.api.authentication import (
    AttemptAuthenticator,
    Authenticator,
    FirstAuthenticator,
    HubAuthenticator,
    MetricsAuthenticator,
    PeerAuthenticator,
)
from gpucommons.scheduler.background_tasks.metrics import Metrics
from gpucommons.scheduler.files.durable_files import write_once
from gpucommons.scheduler.hub import attempt_tokens
from gpucommons.scheduler.leadership.parts import address_of, name_of
from gpucommons.scheduler.wiring.app import Scheduler

_ATTEMPT_PREFIX = "gca-"


def web_app(scheduler: Scheduler) -> FastAPI:
    """The application of this scheduler."""
    return create_app(
        scheduler.service,
        authenticators(scheduler),
        spans=None if scheduler.tracing is None else scheduler.tracing.requests,
        metrics=Metrics(
            scheduler.loop,
            cluster_requests=scheduler.where.requests,
            messages=scheduler.background.notification_delivery.fates,
        ),
        settings=ApiSettings(
            max_snapshot_bytes=scheduler.settings.max_snapshot_mib << 20,
            healthy=lambda: is_healthy(scheduler),
            ready=lambda: scheduler.background.housekeeping.ready,
            alive=lambda: is_alive(scheduler),
            leader=None
            if scheduler.foundation.replica is None
            else lambda: address_of(scheduler.foundation.store.leader()),
            leader_name=lambda: name_of(scheduler.foundation.store.leader()),
        ),
    )


def is_healthy(scheduler: Scheduler) -> bool:
    """Whether it decides, or follows whoever does."""
    loop, longest_s = scheduler.loop, scheduler.settings.stalled_after_s
    return loop.lost is None and loop.pulse.useless_s < longest_s


def is_alive(scheduler: Scheduler) -> bool:
    """Whether its loop turns, be it in vain: if not, only a new process helps."""
    loop, longest_s = scheduler.loop, scheduler.settings.stalled_after_s
    return loop.lost is None and loop.pulse.silent_s < longest_s


def authenticators(scheduler: Scheduler) -> Authenticator:
    """Every way in, in the order in which credentials are tried."""
    known = partial(attempt_tokens.attempt_of, scheduler.foundation.attempt_key)
    found: list[Authenticator] = [
        PeerAuthenticator(
            operator_uid=os.geteuid(), account_template=scheduler.settings.account_template
        ),
        AttemptAuthenticator(
            known, prefix=_ATTEMPT_PREFIX, refused=scheduler.service.refused_reports
        ),
        MetricsAuthenticator(secret_text(scheduler.settings.state / "metrics-token")),
    ]
    if scheduler.foundation.hub is not None:
        found.append(HubAuthenticator(scheduler.foundation.hub, now_ms=scheduler.foundation.now_ms))
    return FirstAuthenticator(found)


def secret_text(path: Path) -> str:
    """A secret of this installation, made on first use, for its operator's eyes only."""
    if not path.exists():
        write_once(path, secrets.token_urlsafe(32).encode())
    return path.read_text().strip()
