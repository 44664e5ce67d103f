"""How amounts, places and spans read."""

from __future__ import annotations

import pytest
from jinja2 import nodes

from gpucommons.scheduler.models.text.place_words import ordinal_words
from gpucommons.scheduler.pages.present import words
from gpucommons.scheduler.pages.server import templates


@pytest.mark.parametrize(
    ("milli_gpu", "text"),
    [(0, "no GPU"), (500, "½ GPU"), (1000, "1 GPU"), (1500, "1½ GPUs"), (4000, "4 GPUs")],
)
def test_an_amount_reads_like_speech(milli_gpu: int, text: str) -> None:
    assert words.gpus(milli_gpu) == text


@pytest.mark.parametrize(
    ("milli_gpu", "kind", "text"),
    [
        (500, "A100-40", "½ of an A100-40"),
        (250, "T4", "¼ of a T4"),
        (1000, "A100-40", "1 × A100-40"),
        (500, None, "½ GPU"),
    ],
)
def test_a_request_names_the_kind(milli_gpu: int, kind: str | None, text: str) -> None:
    assert words.asked(milli_gpu, kind) == text


@pytest.mark.parametrize(
    ("place", "text"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (13, "13th"),
     (21, "21st"), (111, "111th"), (122, "122nd")],
)  # fmt: skip
def test_places_end_right(place: int, text: str) -> None:
    assert ordinal_words(place) == text


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (-5, "0 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (3_599_999, "59 min"),
        (3_600_000, "1 h"),
        (7_500_000, "2 h 5 min"),
        (3 * 86_400_000, "3 d"),
    ],
)
def test_a_span_keeps_what_matters(span_ms: int, text: str) -> None:
    assert words.duration(span_ms) == text


def test_a_hidden_name_is_someone() -> None:
    assert words.person("") == "someone"


def test_an_unknown_reason_class_is_shown_as_it_is() -> None:
    assert words.reason_class("weather") == "weather"


def test_no_macro_is_called_as_a_filter_is() -> None:
    renderer = templates()
    assert renderer.loader is not None
    sources = (renderer.loader.get_source(renderer, name)[0] for name in renderer.list_templates())
    macros = {
        macro.name for text in sources for macro in renderer.parse(text).find_all(nodes.Macro)
    }
    assert "sample_banner" in macros
    assert macros.isdisjoint(renderer.filters)
