"""The reference says of each setting of a pool, a team and its rules what it means."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from docs.generated_fields import field_words
from gpucommons.scheduler import models

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "body",
    [
        models.PoolModel,
        models.TeamModel,
        models.QuotaModel,
        models.PolicyModel,
        models.BudgetModel,
    ],
)
def test_each_field_that_an_admin_writes_has_its_sentence(body: type[models.PoolModel]) -> None:
    words = field_words(body.__name__)
    assert [name for name in body.model_fields if not words.get(name)] == []


def test_the_page_of_bodies_has_these_sentences(tmp_path: Path) -> None:
    make = f"from pathlib import Path; import generated; generated.write(Path({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", make], cwd=ROOT / "docs", check=True)
    page = (tmp_path / "bodies.md").read_text()
    assert "From SIGTERM to SIGKILL." in page
    assert "GPUs that its training can always win back." in page
