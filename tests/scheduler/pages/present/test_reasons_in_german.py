"""A German page holds no English reason: neither why somebody waits nor what would help."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpucommons.scheduler import models
from gpucommons.scheduler.languages.texts import spoken
from gpucommons.scheduler.pages.present.ticket import Viewer, ticket_state
from gpucommons.scheduler.pages.present.waiting import waiting_rows
from gpucommons.scheduler.pages.server import templates

REASON = models.ReasonView(
    code="share",
    text="Needs 2 GPUs on one node; 1 is free, and 1 more is kept for guarantees.",
    unblock="Would start now with 1 GPU.",
    blocker=models.BlockerView(
        kind="idle-notebook",
        text="Your own notebook, idle when last checked, holds 1 GPU: without that this would start now.",
        action="release",
        id="0190aaaa-0000-7000-8000-000000000009",
    ),
)
UNHEARD_OF = "A full moon is in the way."


def page(cluster: Any, reason: models.ReasonView | None) -> str:
    """The list of who waits."""
    lease = cluster.lease(reason=reason)
    rows = waiting_rows([], [lease], cluster.NOW)
    return (
        templates()
        .get_template("admin_waiting.html")
        .render(
            rows=rows, reclaims=False, more=0, whose="", prefix="/", me=SimpleNamespace(admin=True)
        )
    )


def test_the_list_of_who_waits_says_it_in_the_readers_language(cluster: Any) -> None:
    with spoken("de"):
        found = page(cluster, REASON)
        assert (
            "Braucht 2 GPUs auf einem Knoten; 1 ist frei, und 1 weitere wird freigehalten" in found
        )
        assert "Würde jetzt beginnen: mit 1 GPU." in found
        assert 'lang="en"' not in found
        assert 'lang="en"' not in page(cluster, None)
        unheard_of = page(cluster, REASON.model_copy(update={"text": UNHEARD_OF}))
        assert f'<span lang="en">{UNHEARD_OF}</span>' in unheard_of


@pytest.mark.parametrize(
    ("text", "language"), [(REASON.text, "de"), (UNHEARD_OF, "en")], ids=["known", "not"]
)
def test_a_ticket_says_all_of_it_in_one_language(cluster: Any, text: str, language: str) -> None:
    lease = cluster.lease(reason=REASON.model_copy(update={"text": text}))
    with spoken("de"):
        state = ticket_state(
            lease, [lease], None, now_ms=cluster.NOW, viewer=Viewer(name="alice", follow_url="/")
        )
    assert state.said_in == language
    assert state.blocking is not None
    english = (text, REASON.unblock, REASON.blocker.text if REASON.blocker else "")
    assert ((state.reason, state.unblock, state.blocking.text) == english) == (language == "en")
