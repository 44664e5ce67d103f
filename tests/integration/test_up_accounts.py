"""``gpucommons up`` as root: every notebook runs as its user, and sees nothing of the hub's."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from integration.workstation import Workstation

#: An interpreter that every account may run; ours may lie in root's home.
SYSTEM_PYTHON = shutil.which("python3", path="/usr/bin:/bin")

pytestmark = [
    pytest.mark.hub,
    pytest.mark.timeout(400),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may start processes as others"),
    pytest.mark.skipif(SYSTEM_PYTHON is None, reason="no Python that every account may run"),
]

CONFIG = """
pools:
  - {name: gpu}
  - {name: cpu}
teams:
  - name: vision
    members: [nobody]
    quotas: {gpu: {fixed_milli_gpu: 1000}}
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[Workstation]:
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    folder.chmod(0o755)
    one = Workstation(folder, config=CONFIG, options=(), python=SYSTEM_PYTHON or "")
    # As an administrator would leave it: only the server's script is for everybody.
    (one.state / "tests-token").chmod(0o600)
    (one.state / "jupyterhub_extra.py").chmod(0o600)
    (one.state / "small_server.py").chmod(0o644)
    try:
        one.start()
        yield one
    finally:
        one.end()


def _all_files(state: Path) -> set[str]:
    """Everything of the hub's; the server's own script and its slice's folder are not."""
    found = {str(path.relative_to(state)) for path in state.rglob("*") if not path.is_dir()}
    return {name for name in found if not name.startswith(("small_server", "agent/slices/"))}


def test_a_notebook_is_its_users_own_and_opens_nothing_of_the_hub_but_its_slice(
    machine: Workstation,
) -> None:
    opened = machine.open("nobody", 500)
    assert opened.status_code == 201, opened.text
    names = _all_files(machine.state)
    assert {"password", "hub.json", "api.sock", "tokens/spawner", "agent/control.sock"} <= names
    listed = machine.state / "names.json"
    listed.write_text(json.dumps(sorted(names)))
    listed.chmod(0o644)
    seen = httpx.get(f"{machine.url}/user/nobody/look", timeout=60, trust_env=False).json()
    account = pwd.getpwnam("nobody")
    assert seen["uid"] == account.pw_uid
    assert seen["groups"] == [account.pw_gid]
    assert seen["no_new_privs"] == "1"
    # Besides our program text for jobs in environments without it.
    assert [name for name in seen["readable"] if not name.startswith("python/gpucommons/")] == []
    # Nothing of the hub's is open: its log would be read, emptied and forged by any notebook.
    kinds = {name.split(":")[0] for name in seen["descriptors"]}
    assert kinds <= {"/dev/null", "pipe", "socket", f"/proc/{seen['pid']}/fd"}
    stdin, stderr, *numbers = seen["descriptors_of_a_kernel"]
    assert (stdin, stderr.split(":")[0]) == ("/dev/null", "pipe")
    # And the one that it looks with.
    assert sorted(numbers) == ["0", "1", "2", "3"]
    assert seen["usage"].startswith('{"history"')


def test_an_account_of_the_system_gets_no_notebook(machine: Workstation) -> None:
    answer = machine.open("root", 0)
    assert answer.status_code == 403
    assert "account of the system" in answer.json()["message"]


def test_nobody_is_told_a_password_that_others_share(machine: Workstation) -> None:
    text = machine.output.read_text()
    assert "that of the user's account on this machine" in text
    assert (machine.state / "password").read_text() not in text
