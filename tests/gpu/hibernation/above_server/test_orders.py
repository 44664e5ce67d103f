"""What may be asked of root's program: nothing but a tree, in a folder of its user's."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.gpu.hibernation.above_server import orders
from gpucommons.gpu.hibernation.above_server.orders import NotUnderstood, Request, parsed

HOME = Path("/home/ada")
ASKED = Request(
    what="run",
    folder=HOME / ".local/state/tree",
    output=HOME / ".local/state/out.log",
    orphaned="save",
    close_connections=True,
    order_bytes=10,
)
TEXT = st.text(st.characters(exclude_categories=()))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT | TEXT.map(lambda rest: f"{HOME}/{rest}"),
    lambda more: st.lists(more) | st.dictionaries(TEXT, more),
    max_leaves=5,
)


def with_(**changed: object) -> bytes:
    return json.dumps({**json.loads(ASKED.line()), **changed}).encode()


def test_a_request_survives_its_way_through_the_socket() -> None:
    assert parsed(ASKED.line(), HOME) == ASKED


@pytest.mark.parametrize(
    "folder",
    [
        "/etc",
        "/home/ada",
        "/home/adam/tree",
        "/home/ada/../bob/tree",
        "/home/ada/./tree",
        "/home/ada//tree",
        "home/ada/tree",
        "/home/ada/tree\0/etc",
        "/home/ada/" + "x" * 4000,
        "/home/ada/\ud800",
        "",
        7,
        None,
    ],
)
def test_a_folder_that_is_not_below_its_users_home_is_refused(folder: object) -> None:
    for name in ("folder", "output"):
        with pytest.raises(NotUnderstood, match="below /home/ada only"):
            parsed(with_(**{name: folder}), HOME)


@pytest.mark.parametrize(
    "changed",
    [
        {"what": "dump"},
        {"what": ["run"]},
        {"orphaned": "root"},
        {"close_connections": 1},
        {"order_bytes": True},
        {"order_bytes": -1},
        {"order_bytes": orders.MOST_ORDER_BYTES + 1},
        {"what": "wake", "order_bytes": 1},
        {"version": 2},
    ],
)
def test_what_is_no_tree_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(NotUnderstood):
        parsed(with_(**changed), HOME)


@given(name=st.sampled_from(sorted(json.loads(ASKED.line()))), value=VALUES)
def test_no_value_gets_a_path_out_of_the_home_or_an_endless_order(name: str, value: object) -> None:
    try:
        found = parsed(with_(**{name: value}), HOME)
    except NotUnderstood:
        return
    assert HOME in found.folder.parents
    assert ".." not in found.folder.parts
    assert 0 <= found.order_bytes <= orders.MOST_ORDER_BYTES


@given(line=st.binary(max_size=200))
def test_no_line_stops_who_reads_it(line: bytes) -> None:
    for read in (lambda: parsed(line, HOME), lambda: orders.signal_in(line)):
        with pytest.raises(NotUnderstood, match=r"\.$"):
            read()


def test_a_line_of_many_brackets_is_refused() -> None:
    with pytest.raises(NotUnderstood):
        parsed(b"[" * orders.MOST_LINE_BYTES, HOME)


def test_only_signals_for_a_tree_are_handed_on() -> None:
    assert orders.signal_in(b'{"signal": 15}') == signal.SIGTERM
    assert orders.signal_in(b'{"orphaned": true}') is None
    for told in ({"signal": 9}, {"signal": 0}, {"signal": True}, {"signal": "15"}, {}):
        with pytest.raises(NotUnderstood):
            orders.signal_in(json.dumps(told).encode())
