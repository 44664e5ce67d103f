"""Options of form and API end in one value or one sentence."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpucommons.spawner.form.answers import BadOptions, NotebookOptions, parse_options

ENVIRONMENTS = ["Python 3.12", "PyTorch 2.15"]
TICKET = "0190aaaa-0000-7000-8000-000000000001"


@pytest.mark.parametrize(
    "raw",
    [
        {"milli_gpu": 500, "team": "vision", "pool": "gpu"},
        {"milli_gpu": ["500"], "team": ["vision"], "pool": ["gpu"]},
        {"milli_gpu": "500", "team": "vision", "pool": "gpu", "environment": ""},
        {"opt-milli_gpu": ["500"], "opt-team": ["vision"], "opt-pool": ["gpu"]},
        {"offer": ["vision/gpu/500"], "_xsrf": ["x"]},
        {"offer": "vision/gpu/500", "ticket": "stale nonsense"},
    ],
)
def test_form_api_and_query_say_the_same(raw: dict[str, object]) -> None:
    options = parse_options(raw, environments=ENVIRONMENTS)
    assert options == NotebookOptions(milli_gpu=500, team="vision", pool="gpu")


@pytest.mark.parametrize("raw", [None, {}, {"offer": ["cpu"]}, {"milli_gpu": [0]}])
def test_nothing_asked_is_a_cpu_notebook(raw: dict[str, object] | None) -> None:
    assert parse_options(raw) == NotebookOptions()


def test_environment_and_ticket_are_kept() -> None:
    options = parse_options(
        {"environment": ["PyTorch 2.15"], "ticket": TICKET}, environments=ENVIRONMENTS
    )
    assert options.environment == "PyTorch 2.15"
    assert options.ticket == TICKET


def test_what_becomes_of_kernels_is_kept() -> None:
    options = parse_options({"on_idle": ["hibernate"], "kernels_kept_days": ["3"]})
    assert (options.on_idle, options.kernels_kept_days) == ("hibernate", 3)
    assert parse_options(options.as_user_options()) == options


def test_a_stale_ticket_counts_as_none() -> None:
    assert parse_options({"ticket": ["digits"]}).ticket is None


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"milli_gpu": "0.5"}, "500 is ½"),
        ({"milli_gpu": 0.5}, "500 is ½"),
        ({"milli_gpu": True}, "500 is ½"),
        ({"milli_gpu": "-1"}, "500 is ½"),
        ({"milli_gpu": -1}, "between 0 and 64000"),
        ({"milli_gpu": 65_000}, "between 0 and 64000"),
        ({"milli_gpu": "9" * 40}, "500 is ½"),
        ({"milli_gpu": 1500}, "Take 1 or 2"),
        ({"milli_gpu": ["1", "2"]}, "2 times"),
        ({"milli_gpu": {"a": 1}}, "500 is ½"),
        ({"milli_gpu": "250", "opt-milli_gpu": "500"}, "give it once"),
        ({"mili_gpu": 500}, "There is no option 'mili_gpu'"),
        ({"team": "<script>"}, "lower-case letters"),
        ({"team": "vision\n"}, "lower-case letters"),
        ({"pool": 5}, "lower-case letters"),
        ({"environment": "Windows 95"}, "Possible are: Python 3.12, PyTorch 2.15"),
        ({"environment": ["../../bin/sh"]}, "There is no environment"),
        ({"offer": "vision/500"}, "team/pool/milli_gpu"),
        ({"offer": "vision/gpu/500", "milli_gpu": "1000"}, "not both"),
        ({"offer": "vision/gpu/much"}, "500 is ½"),
        ({"offer": 7}, "team/pool/milli_gpu"),
        ({"kernels_kept_days": "soon"}, "days from 1 to 365"),
        ({"kernels_kept_days": 366}, "days from 1 to 365"),
        ({"kernels_kept_days": True}, "days from 1 to 365"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_possible(raw: dict[str, object], said: str) -> None:
    with pytest.raises(BadOptions) as refused:
        parse_options(raw, environments=ENVIRONMENTS)
    assert said in str(refused.value)


def test_a_refusal_never_repeats_more_than_a_line() -> None:
    with pytest.raises(BadOptions) as refused:
        parse_options({"team": "x" * 100_000})
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "key", ["display_name", "opt-display_name", "profile", "ticket", "unknown"]
)
def test_options_too_large_to_be_kept_are_refused_whoever_reads_them(key: str) -> None:
    with pytest.raises(BadOptions, match=r"8 KiB at most as JSON; these take 10 KiB"):
        parse_options({"milli_gpu": 0, key: "x" * 10_000}, others={"profile"})


def test_options_of_a_usual_size_are_kept() -> None:
    assert parse_options({"display_name": "x" * 8_000}) == NotebookOptions()


def test_keys_of_another_spawner_are_left_alone() -> None:
    assert parse_options({"profile": ["gpu"]}, others={"profile"}) == NotebookOptions()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)
keys = st.sampled_from(["milli_gpu", "team", "pool", "environment", "ticket", "offer", "x"])


# A crowded machine is no property of the parser.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(raw=st.dictionaries(keys, json_values))
def test_anything_at_all_is_understood_or_refused(raw: dict[str, object]) -> None:
    try:
        options = parse_options(raw, environments=ENVIRONMENTS)
    except BadOptions:
        return
    stored = options.as_user_options()
    assert parse_options(stored, environments=ENVIRONMENTS) == options


@pytest.mark.parametrize(
    ("value", "mib"), [("12", 12288), ("12 GiB", 12288), ("0.5GiB", 512), (12, 12288)]
)
def test_a_gpu_may_be_asked_for_by_memory(value: object, mib: int) -> None:
    options = parse_options({"gpu_memory": value})
    assert (options.gpu_memory_mib, options.milli_gpu, options.wants_gpu) == (mib, 0, True)
    # The hub stores it and hands it back.
    assert parse_options(options.as_user_options()) == options


def test_memory_that_is_written_goes_before_the_card_that_a_form_always_sends() -> None:
    options = parse_options({"offer": ["vision/gpu/250"], "gpu_memory": ["12"]})
    assert (options.gpu_memory_mib, options.milli_gpu, options.pool) == (12288, 0, None)
    left_empty = parse_options({"offer": ["vision/gpu/250"], "gpu_memory": [""]})
    assert (left_empty.gpu_memory_mib, left_empty.milli_gpu) == (0, 250)


@pytest.mark.parametrize("value", ["-1", "0", "much", "1e9", "12 TB", True, "9999999"])
def test_what_is_no_amount_of_memory_is_refused(value: object) -> None:
    with pytest.raises(BadOptions, match="a number of GiB, for example 12 GiB"):
        parse_options({"gpu_memory": value})


def test_a_size_and_a_memory_are_not_both_taken() -> None:
    with pytest.raises(BadOptions, match="either milli_gpu or gpu_memory"):
        parse_options({"gpu_memory": "12", "milli_gpu": 500})
