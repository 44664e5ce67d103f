"""A user's programs keep what outlives them where the user says."""

from __future__ import annotations

from pathlib import Path

from gpucommons.gpu.linux.state_home import state_home


def test_the_state_folder_is_the_users_choice(tmp_path: Path) -> None:
    home, own = {"HOME": str(tmp_path)}, tmp_path / ".local" / "state"
    assert state_home(home) == own
    assert state_home({**home, "XDG_STATE_HOME": "/state"}) == Path("/state")
    assert state_home({**home, "XDG_STATE_HOME": "below"}) == own
