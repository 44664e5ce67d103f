"""Several workers that may each train alone are warned of: at submit, and wherever the job is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Cli

from gpucommons.scheduler.scripts import frameworks

SAYS = "train.py imports torch, and without a launcher (plain) each worker may train alone"


def test_it_is_said_at_submit_and_of_the_job_and_read_once(
    cli: Cli, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.write_text("import torch\nfor epoch in range(3):\n    print('loss 0.1')\n")
    reads = []
    read = frameworks.read_script
    monkeypatch.setattr(
        frameworks, "read_script", lambda *asked: reads.append(asked) or read(*asked)
    )
    made = cli("submit", str(script), "--workers", "2", "--output", "json")
    assert f"warning: {SAYS}" in made.err
    for _ in range(3):
        assert f"  warning: {SAYS}" in cli("show", made.json["name"]).out
    assert len(reads) == 1


def test_a_trainer_of_hugging_face_gets_torchrun_and_one_worker_no_word(
    cli: Cli, script: Path
) -> None:
    script.write_text("import torch\nfrom trl import SFTTrainer\n\nSFTTrainer(model='x').train()\n")
    made = cli("submit", str(script), "--workers", "2")
    assert "launcher: torchrun, as train.py (line 4) starts a Trainer of Hugging Face" in made.err
    assert "warning" not in made.err
    alone = cli("submit", str(script), "--output", "json")
    assert "warning" not in alone.err + cli("show", alone.json["name"]).out
