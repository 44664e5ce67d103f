"""Whether an account can save processes, asked of it as a program; with a real CRIU."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpucommons.gpu.hibernation.criu import VARIABLE, find_criu

PROGRAM = [sys.executable, "-m", "gpucommons.gpu.hibernation.self_test_program"]
FORBID = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'


def _tried(home: Path, *before: str, **environ: str) -> int:
    names = ("PATH", VARIABLE)
    here = {name: os.environ[name] for name in names if name in os.environ}
    env = {**here, "HOME": str(home), **environ}
    return subprocess.run([*before, *PROGRAM], env=env, check=False).returncode


@pytest.mark.criu
def test_an_account_that_can_save_says_so_and_leaves_nothing_in_its_home(tmp_path: Path) -> None:
    if find_criu(os.environ) is None:
        pytest.skip("there is no CRIU: `make setup-hibernation` gets it")
    if VARIABLE not in os.environ:
        pytest.skip("the CRIU of this account is not another home's")
    assert _tried(tmp_path) == 0
    assert list((tmp_path / ".local" / "state" / "gpucommons").iterdir()) == []


@pytest.mark.criu
def test_where_namespaces_are_forbidden_it_cannot(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs unshare(1) to forbid namespaces in one of its own")
    assert _tried(tmp_path, unshare, "-Ur", "sh", "-c", FORBID, "sh") == 1


def test_without_criu_it_cannot(tmp_path: Path) -> None:
    assert _tried(tmp_path, GPUCOMMONS_CRIU=str(tmp_path / "none")) == 1
