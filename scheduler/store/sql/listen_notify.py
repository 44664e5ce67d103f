"""Replicas that share a PostgreSQL wake each other: a follower's request, the leader's answer.

A notice travels with its transaction's commit and is forgotten if nobody listens, so whoever listens
also looks by itself from time to time. SQLite has one scheduler, which needs none.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from gpucommons.scheduler.threads.repeating import repeat

_LOG = logging.getLogger(__name__)

ASKED, COMMITTED = "asked", "committed"
_CHANNEL = "gpucommons"
#: Between two looks whether to end, and between two tries to connect.
_LOOK_S, _RETRY_S = 0.5, 1.0


class Notices:
    """Of one process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._works = engine.dialect.name == "postgresql"
        #: One's own notices are no news.
        self._origin = secrets.token_hex(8)

    def send(self, connection: Connection, kind: str) -> None:
        """Tell the others once this transaction is committed."""
        if self._works:
            connection.execute(
                text("SELECT pg_notify(:channel, :payload)"),
                {"channel": _CHANNEL, "payload": f"{kind} {self._origin}"},
            )

    def listen(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call back for what others send; returns what ends that."""
        if not self._works:
            return lambda: None
        stopping = threading.Event()
        thread = threading.Thread(
            target=self._run, args=(callback, stopping), name="store-notices", daemon=True
        )
        thread.start()

        def stop() -> None:
            stopping.set()
            thread.join()

        return stop

    def _run(self, callback: Callable[[str], None], stopping: threading.Event) -> None:
        import psycopg  # noqa: PLC0415 - only where PostgreSQL is

        def hear() -> None:
            try:
                self._hear(callback, stopping)
            except (psycopg.Error, DBAPIError) as error:
                _LOG.info("no notices of other replicas for now: %s", type(error).__name__)

        repeat(hear, what="listening to other replicas", pause_s=_RETRY_S, stopping=stopping)

    def _hear(self, callback: Callable[[str], None], stopping: threading.Event) -> None:
        pooled = self._engine.raw_connection()
        driver = pooled.driver_connection
        # It listens for as long as it lives: the pool must not hand it to anybody else.
        pooled.detach()
        assert driver is not None  # noqa: S101 - it was just opened
        try:
            driver.autocommit = True
            driver.execute(f"LISTEN {_CHANNEL}")
            # What was sent while nobody listened.
            callback(COMMITTED)
            callback(ASKED)
            while not stopping.is_set():
                for notice in driver.notifies(timeout=_LOOK_S):
                    kind, _, origin = notice.payload.partition(" ")
                    if origin != self._origin:
                        callback(kind)
                    if stopping.is_set():
                        break
        finally:
            driver.close()
