"""A profile and its choices are on offer, or refused in one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from gpucommons.spawner.form.answers import BadOptions
from gpucommons.spawner.form.profile_checks import check_profile

OWN_IMAGE = {"enabled": True, "validation_regex": r"^quay\.io/.+"}
PROFILES: list[dict[str, Any]] = [
    {
        "slug": "usual",
        "default": True,
        "profile_options": {"size": {"choices": {"s": {}, "m": {}}}},
    },
    {"slug": "own", "profile_options": {"image": {"unlisted_choice": OWN_IMAGE}}},
]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"size": "m"},
        {"profile": "usual", "milli_gpu": 500, "unknown": [1]},
        {"profile": "own", "image--unlisted-choice": "quay.io/a/b"},
    ],
)
def test_what_is_on_offer_is_taken(given: dict[str, object]) -> None:
    check_profile(given, PROFILES)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"profile": "other"}, "no profile 'other'. Possible are: usual, own."),
        ({"size": "xl"}, "no size 'xl'. Possible are: s, m."),
        ({"size--unlisted-choice": "xl"}, "no size--unlisted-choice 'xl'. Possible are: s, m."),
        ({"profile": "own"}, "give image--unlisted-choice"),
        ({"profile": "own", "image": "a"}, "no image 'a'. Possible are: none"),
        ({"profile": "own", "image--unlisted-choice": "a"}, "text that fits ^quay"),
        ({"profile": "own", "image--unlisted-choice": ["quay.io/a"]}, "text that fits ^quay"),
    ],
)
def test_what_is_not_on_offer_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(BadOptions) as refused:
        check_profile(given, PROFILES)
    assert said in str(refused.value)


def test_without_profiles_there_is_nothing_to_check() -> None:
    check_profile({"profile": "any"}, [])
