"""What a page hears of its kernel's state: of the user's work, not of requests of ours beside it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_client.session import DELIM, Session

from gpucommons.labextension.activity.told_state import say_state, told_by
from gpucommons.labextension.hibernation.after_wake import own_session

OF_KERNEL = "the kernel's own name"


class Page:
    """A page's connection, as Jupyter's server has it; what it hands on is written down."""

    def __init__(self, state: str) -> None:
        self.session = Session(key=b"secret")
        self.heard: list[dict[str, Any]] = []
        self.channels = {"iopub": SimpleNamespace(closed=lambda: False, channel="iopub")}
        self.unread = ""

        def flush(_flag: int) -> None:
            self.kernel_manager.execution_state = self.unread or state

        self.kernel_manager = SimpleNamespace(
            session=self.session,
            execution_state=state,
            speaks_as=OF_KERNEL,
            _activity_stream=SimpleNamespace(flush=flush),
        )

    def connect(self) -> None:
        return None

    def handle_outgoing_message(self, _stream: Any, parts: list[bytes]) -> None:
        _, message = self.session.feed_identities(parts)
        self.heard.append(self.session.deserialize(message))

    def states(self) -> list[str]:
        return [one["content"]["execution_state"] for one in self.heard]


def page_of(state: str) -> Any:
    page: Any = told_by(Page)(state)
    return page


def said(page: Any, kind: str, content: dict[str, Any], asked_by: Session) -> list[bytes]:
    parent = asked_by.msg("execute_request")["header"]
    message = page.session.msg(kind, content, parent=parent)
    parts: list[bytes] = page.session.serialize(message)
    assert parts[0] == DELIM
    return [b"topic", *parts]


@pytest.mark.parametrize("state", ["busy", "idle"])
def test_begin_and_end_of_a_request_of_ours_are_no_state_of_the_kernel(state: str) -> None:
    page = page_of("busy")
    ours, users = own_session(page.kernel_manager), Session(key=b"secret")

    page.handle_outgoing_message(None, said(page, "status", {"execution_state": state}, ours))
    assert page.states() == []
    page.handle_outgoing_message(None, said(page, "status", {"execution_state": state}, users))
    assert page.states() == [state]


def test_what_a_thread_prints_meanwhile_is_heard() -> None:
    page = page_of("busy")
    ours = own_session(page.kernel_manager)

    page.handle_outgoing_message(None, said(page, "stream", {"text": "a line"}, ours))
    assert [one["content"]["text"] for one in page.heard] == ["a line"]


def test_a_page_hears_that_its_kernel_is_at_work_and_no_other_kernel_said_it() -> None:
    page = page_of("busy")
    say_state(page)

    assert page.states() == ["busy"]
    assert page.heard[0]["header"]["session"] == OF_KERNEL


def test_a_cell_that_has_just_ended_does_not_read_as_running() -> None:
    page = page_of("busy")
    page.unread = "idle"
    say_state(page)

    assert page.states() == []


def test_who_was_told_that_a_cell_runs_is_told_when_none_did() -> None:
    page = page_of("busy")
    say_state(page)
    page.unread = "idle"
    say_state(page)
    say_state(page)

    assert page.states() == ["busy", "idle"]


def test_of_a_kernel_that_has_not_spoken_yet_nothing_is_said() -> None:
    page = page_of("busy")
    page.kernel_manager.speaks_as = None
    say_state(page)

    assert page.states() == []
