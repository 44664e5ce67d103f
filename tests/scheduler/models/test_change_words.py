"""What the audit says in English is said in the reader's language, where its form is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpucommons.scheduler.core.events.settings import audit
from gpucommons.scheduler.core.model.price_and_budget import Price
from gpucommons.scheduler.core.model.resources import Pool, Quota
from gpucommons.scheduler.core.model.types import Millis, PoolName
from gpucommons.scheduler.languages.texts import spoken
from gpucommons.scheduler.models.text.change_words import change_words

OLD = Quota(fixed_milli_gpu=2000)
NEW = Quota(fixed_milli_gpu=3000, limit_milli_gpu=8000, over_quota_weight=2)


def test_a_quota_is_said_as_the_core_writes_it() -> None:
    text = f"vision in pool gpu: {audit.of_quota(OLD, NEW).text}."
    with spoken("de"):
        assert change_words(text) == (
            "vision im Pool gpu: fest 2 → 3, Limit keine → 8, Gewicht 1 → 2."
        )
    assert change_words(text) == text


def test_a_setting_without_a_word_of_its_own_keeps_the_name_that_it_has_in_files() -> None:
    old = Pool(name=PoolName("gpu"))
    new = replace(old, notice_ms=old.notice_ms + 5000, min_run_ms=60_000)
    text = f"The pool gpu: {audit.of_fields(old, new).text}."
    with spoken("de"):
        said = change_words(text)
    assert said.startswith("Der Pool gpu: Ankündigung ")
    assert "min run" in said


def test_a_setting_that_was_empty_is_said_to_have_been_none() -> None:
    old = Pool(name=PoolName("gpu"))
    price = Price(from_ms=Millis(0), micro_per_gpu_h=1_100_000)
    text = audit.of_fields(old, replace(old, prices=(price,), currency="EUR")).text
    assert text.startswith("prices none → ")
    assert text.endswith("currency none → EUR")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nlp was created.", "nlp wurde angelegt."),
        ("nlp was removed.", "nlp wurde entfernt."),
        ("The pool gpu was created.", "Der Pool gpu wurde angelegt."),
        (
            "The hub-wide policy: max workers none → 4.",
            "Die Regeln des ganzen Hubs: max workers none → 4.",
        ),
        ("A sentence of an older release", "A sentence of an older release"),
        ("", ""),
    ],
)
def test_each_form_of_the_audit_is_read_back(text: str, said: str) -> None:
    with spoken("de"):
        assert change_words(text) == said
