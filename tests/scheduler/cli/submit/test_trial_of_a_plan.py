"""``submit --plan ID --try``: five minutes of a plan."""

from __future__ import annotations

from pathlib import Path

from command_line import Cli


def test_a_trial_of_a_plan_is_short_and_goes_behind_all_others(cli: Cli, script: Path) -> None:
    number = "0190aaaa-0000-7000-8000-000000000009"
    done = cli("submit", str(script), "--plan", number, "--try")
    assert done.code == 0, done.err
    request = cli("show", "train-1", "--output", "json").json["request"]
    assert (request["max_run_s"], request["priority"]) == (300, "low")


def test_what_is_tried_is_named(cli: Cli, script: Path) -> None:
    refused = cli("submit", str(script), "--try")
    assert refused.code != 0
    assert "name it (--plan ID)" in refused.err


def test_a_trial_with_a_priority_or_a_limit_of_ones_own_is_refused(cli: Cli, script: Path) -> None:
    number = "0190aaaa-0000-7000-8000-000000000009"
    for own in (("--priority", "high"), ("--max-run-s", "1800")):
        refused = cli("submit", str(script), "--plan", number, "--try", *own)
        assert refused.code != 0
        assert "leave out --priority and --max-run-s" in refused.err
