"""What is composed for admins is known in every language of the pages."""

from __future__ import annotations

from itertools import product

import pytest

from gpucommons.scheduler.languages.sentences import translated
from gpucommons.scheduler.languages.texts import spoken
from gpucommons.scheduler.on_idle import ON_IDLE
from gpucommons.scheduler.service.administration import replays
from gpucommons.scheduler.service.views.on_idle import on_idle_text


def test_what_becomes_of_an_idle_notebook_is_said_in_german() -> None:
    ways = product(ON_IDLE, ("kernels", "variables", "nothing", ""), (True, False))
    texts = {on_idle_text(on_idle, keeps, parks=parks) for on_idle, keeps, parks in ways}
    assert len(texts) > 5
    with spoken("de"):
        assert not {text for text in texts if translated(text) is None}


@pytest.mark.parametrize(("happened", "played"), [(0, 1), (1, 0), (1, 2), (7, 1), (7, 12)])
def test_evictions_that_were_beside_those_played_are_said_in_german(
    happened: int, played: int
) -> None:
    with spoken("de"):
        said = translated(replays._in_truth(happened, played).strip())
    assert said is not None
    assert "In Wahrheit gab es" in said


def test_a_replay_on_more_gpus_is_told_in_german() -> None:
    text = (
        "412 notebooks and jobs of the last 7 days, played again on today's 2½ GPUs. 3 of them could not be"
        " submitted: a team or pool is gone. After: 8 more in train, which are in no quota unless one is"
        " changed, and so are borrowed. All figures are simulated, those before the change too: that past,"
        " played with today's quotas. Nothing would have been different."
    )
    with spoken("de"):
        assert translated(text) == (
            "412 Notebooks und Jobs der letzten 7 Tage, noch einmal gespielt auf den heutigen 2½ GPUs. 3 davon"
            " ließen sich nicht einreichen: Ein Team oder Pool ist weg. Danach: 8 mehr in train; sie sind in"
            " keinem Kontingent, solange keines geändert wird, und werden daher geliehen. Alle Zahlen sind"
            " simuliert, auch die vor der Änderung: jene Vergangenheit, gespielt mit den heutigen Kontingenten."
            " Nichts wäre anders gewesen."
        )
