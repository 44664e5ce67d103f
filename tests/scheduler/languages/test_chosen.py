"""Which language somebody is answered in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.scheduler.languages.chosen import chosen

THERE = ("en", "de")


@pytest.mark.parametrize(
    ("cookie", "accepted", "found"),
    [
        ("", "", "en"),
        ("", "de", "de"),
        ("", "de-AT,de;q=0.9,en;q=0.8", "de"),
        ("", "en-GB,en;q=0.9,de;q=0.8", "en"),
        ("", "fr,de;q=0.5,en;q=0.4", "de"),
        ("", "de;q=0.1,en;q=0.9", "en"),
        ("", "de;q=0,fr", "en"),
        ("", "DE", "de"),
        ("", "*", "en"),
        ("", "de;q=often,en", "en"),
        ("de_DE", "en", "de"),
        ("en", "de", "en"),
        ("xx", "de", "de"),
    ],
)
def test_what_was_chosen_comes_before_what_the_browser_asks_for(
    cookie: str, accepted: str, found: str
) -> None:
    assert chosen(cookie, accepted, THERE) == found


@given(cookie=st.text(), accepted=st.text())
def test_whatever_is_sent_a_language_that_is_there_is_found(cookie: str, accepted: str) -> None:
    assert chosen(cookie, accepted, THERE) in THERE
