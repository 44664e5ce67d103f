"""How PostgreSQL is connected to: a server that is cut off must not hold the leader for minutes."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event, make_url

from gpucommons.scheduler.store.sql import engine

psycopg = pytest.importorskip("psycopg")


def asked(url: str) -> dict[str, Any]:
    """What the driver is asked to connect with."""
    found: dict[str, Any] = {}
    made = engine._engine(make_url(url))

    def connect(_dialect: Any, _record: Any, _args: Any, options: dict[str, Any]) -> None:
        found.update(options)
        raise ConnectionError

    event.listen(made, "do_connect", connect)
    with pytest.raises(ConnectionError):
        made.connect()
    return found


def test_a_dead_server_is_noticed_within_seconds() -> None:
    options = asked("postgresql+psycopg://ada@db/store")
    assert (options["connect_timeout"], options["tcp_user_timeout"]) == (3, 5_000)
    # The driver knows each of them.
    assert psycopg.conninfo.make_conninfo("host=db", **engine._POSTGRESQL)


def test_what_an_address_says_itself_holds() -> None:
    options = asked("postgresql+psycopg://ada@db/store?connect_timeout=20")
    assert str(options["connect_timeout"]) == "20"


def test_an_addresss_own_options_come_last_and_so_win() -> None:
    options = asked("postgresql+psycopg://ada@db/store?options=-c%20lock_timeout%3D1min")["options"]
    assert options.startswith("-c idle_in_transaction_session_timeout=10s -c lock_timeout=10s")
    assert options.endswith("-c lock_timeout=1min")
