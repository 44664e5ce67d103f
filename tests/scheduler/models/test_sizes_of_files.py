"""Sizes of files are written in one way: by the scheduler, the command line and the panel."""

from __future__ import annotations

import re
from pathlib import Path

from gpucommons.scheduler.working_folder import words

SPEC = Path(__file__).parents[3] / "labextension" / "src" / "text" / "format.spec.ts"


def test_the_panels_own_cases_hold_here_too() -> None:
    cases = re.findall(r"\[([\d_]+), '([\d.]+ \w+)'\]", SPEC.read_text())
    sizes = [(int(count), text) for count, text in cases if text.endswith("B")]

    assert len(sizes) > 5
    assert [words.size(count) for count, _ in sizes] == [text for _, text in sizes]
