"""`gpucommons advise`: a model by its configuration, its shape or its counts; plans in plain words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Cli

SHAPE = ("--layers", "24", "--hidden", "1024", "--heads", "16", "--vocabulary", "50000", "--tied")
TRAINING = ("--batch", "64", "--sequence", "1024", "--steps", "1000")
CONFIG = {
    "model_type": "gpt2",
    "n_layer": 12,
    "n_embd": 768,
    "n_head": 12,
    "vocab_size": 50_257,
    "n_positions": 1024,
}


def test_a_configuration_becomes_plans_in_plain_words(cli: Cli, home: Path) -> None:
    (home / "config.json").write_text(json.dumps(CONFIG))

    done = cli("advise", "--config", ".", *TRAINING)

    assert done.code == 0, done.err
    first, *rest = done.out.splitlines()
    assert first.startswith("1. ")
    assert "(grade C)" in first
    assert "wait none" in rest[0]
    assert "GPU-hours" in rest[0]
    assert "GiB (" in rest[1]
    assert "tokens/s" in rest[1]
    assert any(line.startswith("Plain, ") for line in rest)
    assert any(line.startswith("Why not ") for line in rest)
    assert any(line.endswith("layouts were looked at.") or "do not divide" in line for line in rest)


def test_shape_and_counts_are_two_other_ways(cli: Cli) -> None:
    by_shape = cli("advise", *SHAPE, *TRAINING, "--output", "json")
    assert by_shape.code == 0, by_shape.err
    assert by_shape.json["plans"][0]["grade"] == "C"

    counted = ("--parameters", "25.6e6", "--flops-per-sample", "8.2e9", "--activation-mib", "90")
    epochs = ("--batch", "256", "--samples", "1281167", "--epochs", "90")
    by_counts = cli("advise", *counted, *epochs, "--output", "json")
    assert by_counts.code == 0, by_counts.err
    assert by_counts.json["plans"][0]["tokens_per_s"] is None


def test_waiting_jobs_are_looked_at_together(cli: Cli) -> None:
    done = cli("advise", "--together")
    assert done.code == 0, done.err
    assert done.out.endswith("can be looked at together; 0 of yours wait.\n")
    assert cli("advise", "--together", "--output", "json").json["pools"] == []


def test_a_model_type_that_is_not_read_gets_no_number(cli: Cli, home: Path) -> None:
    (home / "config.json").write_text(json.dumps({"model_type": "brand_new\u202e"}))
    done = cli("advise", "--config", "config.json", *TRAINING)
    assert done.code == 0
    assert "is not known here. Can't say yet." in done.out
    assert "gpucommons advise --like JOB" in done.out
    assert "\u202e" not in done.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (TRAINING, "Describe the model in one way"),
        ((*SHAPE, "--parameters", "1e9", *TRAINING), "Describe the model in one way"),
        (("--layers", "2", *TRAINING), "lacks --hidden, --heads, --vocabulary"),
        ((*SHAPE, "--batch", "8", "--sequence", "64"), "Say how long it trains"),
        ((*SHAPE, "--batch", "8", "--steps", "9"), "how many tokens a sample"),
        ((*SHAPE, "--steps", "9"), "how many samples one optimizer step"),
        ((*SHAPE, *TRAINING, "--objective", "deadline"), "belong together"),
        ((*SHAPE, *TRAINING, "--by", "friday"), "is no moment"),
        ((*SHAPE, "--batch", "0", "--steps", "1"), "is not a whole number above 0"),
        (("--config", "missing.json", *TRAINING), "cannot be read"),
        ((*SHAPE, *TRAINING, "--pool", "nowhere"), "nowhere"),
    ],
)
def test_what_is_missing_or_wrong_is_said(cli: Cli, options: tuple[str, ...], said: str) -> None:
    done = cli("advise", *options)
    assert done.code in (1, 2, 4), done
    assert said in done.err
