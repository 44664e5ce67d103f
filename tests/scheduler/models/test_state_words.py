"""One state, one word: on the command line, on the pages and in the panel."""

from __future__ import annotations

import re
from pathlib import Path

from gpucommons.scheduler.core.model.types import State
from gpucommons.scheduler.models.text.state_words import JOB_WORDS, LEASE_WORDS, state_words

MESSAGES = Path(__file__).parents[3] / "labextension" / "src" / "text" / "messages.ts"


def test_the_panel_says_the_same() -> None:
    table = re.search(
        r"const stateWord = .*?\(\{(.*?)\}\)\[state\]", MESSAGES.read_text(), re.DOTALL
    )
    assert table is not None
    said = dict(re.findall(r"(\w+): trans\.__\('([^']+)'\)", table[1]))

    assert said == dict(JOB_WORDS)


def test_every_state_has_a_word() -> None:
    assert {state.value for state in State} == set(JOB_WORDS) | set(LEASE_WORDS)


def test_a_state_that_is_not_known_here_is_its_own_word() -> None:
    assert state_words("hibernated") == "hibernated"
    assert state_words("queued") == "waiting"
