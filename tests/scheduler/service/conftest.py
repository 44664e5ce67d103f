from pathlib import Path

import pytest
from service_world import ServiceWorld


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)
