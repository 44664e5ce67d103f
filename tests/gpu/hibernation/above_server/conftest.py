from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from below_root.homes import home_of_user


@pytest.fixture
def home() -> Iterator[Path]:
    with home_of_user() as found:
        yield found
