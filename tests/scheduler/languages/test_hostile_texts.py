"""Texts that somebody made to be hard to take apart: they stay in English, soon."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.languages import sentences
from gpucommons.scheduler.languages.sentences import Reading, phrase, sentence, translated
from gpucommons.scheduler.languages.texts import spoken

_MESSAGES = (*sentences.SENTENCES, *sentences.PHRASES)
#: What stands between the placeholders of messages, and what such a placeholder takes.
_PIECES = sorted({part for one in _MESSAGES for part in re.split(r"%\(\w+\)s", one)} | {"a", "1"})
_TEXTS = st.one_of(
    st.text(max_size=1200),
    st.lists(st.sampled_from(_PIECES), max_size=60).map("".join),
    st.builds(
        lambda pieces, times, end: "".join(pieces) * times + end,
        st.lists(st.sampled_from(_PIECES), min_size=1, max_size=3),
        st.integers(1, 300),
        st.sampled_from(["", "x", "."]),
    ),
)


@settings(max_examples=150, deadline=None)
@given(text=_TEXTS)
def test_any_text_is_told_after_a_bounded_number_of_tries(text: str) -> None:
    with spoken("de"):
        for told in (Reading.of_sentences, Reading.of_phrase):
            reading = Reading()
            told(reading, text[: sentences.MOST_CHARACTERS])
            assert reading.tries <= sentences.MOST_TRIES
        assert sentence(text) == (translated(text) or text)
        assert phrase(text) or not text


@pytest.mark.parametrize(
    "text",
    [
        "It answers a. " * 33 + "x",
        "There is no a for you. " * 10 + "x",
        "Would start now " + "CPU only: a, " * 60 + ";",
        ", " * 500,
        "a, was " * 140,
        "Needs a, which " * 60,
    ],
)
def test_what_is_made_to_be_hard_stays_as_it_is(text: str) -> None:
    with spoken("de"):
        assert translated(text) is None
        assert sentence(text) == text
        assert phrase(text) == text


def test_no_part_is_tried_twice() -> None:
    reading = Reading()
    with spoken("de"):
        assert reading.of_sentences("It failed. " * 8 + "A full moon is in the way.") is None
    # Any of them up to any other.
    assert reading.tries <= 9 * 10 / 2


def test_many_short_sentences_are_told_all_the_same() -> None:
    with spoken("de"):
        assert sentence("Paused. " * 12 + "It failed.") == "Pausiert. " * 12 + "Gescheitert."


def test_what_is_too_long_is_not_looked_at() -> None:
    told = "Waits for {}."
    longest = "a" * (sentences.MOST_CHARACTERS - len(told.format("")))
    with spoken("de"):
        assert translated(told.format(longest)) == f"Wartet auf {longest}."
        assert translated(told.format(longest + "a")) is None
