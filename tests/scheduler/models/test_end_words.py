"""How a notebook ended, and what it keeps, is said in the reader's language as far as it has a form."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gpucommons.idle_culler.idle_limits import duration
from gpucommons.scheduler.core.events import leases
from gpucommons.scheduler.languages.texts import spoken
from gpucommons.scheduler.models import KeptKernelsView, LastEndView, OfferList
from gpucommons.scheduler.models.text.end_words import (
    end_sentence,
    kept_brief,
    kept_list,
    kept_sentences,
    kept_text,
    last_end_text,
)

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
AT_MS = 1_700_000_000_000
AT = datetime.fromtimestamp(AT_MS / 1000, UTC).astimezone()
KEPT: dict[str, Any] = {"until_ms": AT_MS, "text": "as it was", "brief": "in brief"}


def ended(why: str, *, ran: bool = True) -> LastEndView:
    return LastEndView(at_ms=AT_MS, ran=ran, why=why)


@pytest.mark.parametrize(
    ("why", "german"),
    [
        (f"idle {duration(HOUR_MS)}", "60 min untätig"),
        ("reclaimed by ada: we need it: now", "von ada zurückgenommen: we need it: now"),
        (leases._END_TEXTS["reclaimed"], "ein Admin hat die GPU zurückgenommen"),
        ("Taken out of the line by ada", "von ada aus der Warteschlange genommen"),
        ("The cloud takes node-3 back in 120 s", "die Cloud nimmt node-3 in 120 s zurück"),
    ],
)
def test_a_reason_with_a_form_is_translated(why: str, german: str) -> None:
    assert end_sentence(ended(why), AT_MS) == (f"Stopped at {AT:%H:%M}: {why}.", True)
    with spoken("de"):
        assert end_sentence(ended(why), AT_MS) == (f"Gestoppt um {AT:%H:%M}: {german}.", True)


@pytest.mark.parametrize("why", sorted(set(leases._END_TEXTS.values()) - leases.OWN_ENDS))
def test_every_end_that_its_user_did_not_bring_about_has_one(why: str) -> None:
    with spoken("de"):
        said, is_translated = end_sentence(ended(why), AT_MS)
    assert is_translated
    assert why not in said


def test_another_reason_stays_as_it_was_written_and_is_said_to_be_so() -> None:
    with spoken("de"):
        said = end_sentence(ended("power cut", ran=False), AT_MS + 3 * DAY_MS)
    assert said == (
        f"Seit {AT:%H:%M} am {AT.day}. November nicht mehr in der Warteschlange: power cut.",
        False,
    )


def test_an_older_scheduler_tells_it_in_english_alone() -> None:
    offers = OfferList(
        user="ann", offers=[], now_ms=AT_MS, last_end="Stopped at 14:02: idle 60 min."
    )
    assert last_end_text(offers) == ("Stopped at 14:02: idle 60 min.", True)
    with spoken("de"):
        assert last_end_text(offers) == ("Stopped at 14:02: idle 60 min.", False)


def test_what_is_kept_is_said_whole_and_in_brief() -> None:
    kept = KeptKernelsView(
        kernels=2,
        kernel_bytes=1 << 30,
        variables=12,
        variable_bytes=1 << 20,
        variables_lost=2,
        **KEPT,
    )
    assert (kept_text(kept), kept_brief(kept)) == ("as it was", "in brief")
    day = f"{AT.day} November"
    assert kept_sentences(kept) == (
        f"Your 2 kernels (1.0 GiB) are kept until {day}."
        f" 12 of 14 variables are kept (1 MiB) until {day}."
    )
    assert kept_list(kept) == f"2 kernels (1.0 GiB), 12 of 14 variables (1 MiB), until {day}."
    with spoken("de"):
        assert kept_text(kept) == (
            f"Ihre 2 Kernel (1,0 GiB) bleiben bis {AT.day}. November aufbewahrt."
            f" 12 von 14 Variablen (1 MiB) bleiben bis {AT.day}. November aufbewahrt."
        )
        assert kept_brief(KeptKernelsView(kernels=1, kernel_bytes=1 << 20, **KEPT)) == (
            f"1 Kernel (1 MiB), bis {AT.day}. November."
        )
