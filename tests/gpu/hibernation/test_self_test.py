"""The self-test says what really works, and never hangs or fails aloud."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.self_test import NO_CRIU, self_test

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux saves processes")


@pytest.mark.criu
def test_where_it_works_it_measures(criu: Criu, tmp_path: Path) -> None:
    ability = self_test(criu, tmp_path)

    assert ability.can_hibernate, ability.because
    assert ability.save_mib_per_s > 0 < ability.wake_mib_per_s
    assert list(tmp_path.iterdir()) == []


def test_without_criu_it_says_how_to_get_it(tmp_path: Path) -> None:
    ability = self_test(None, tmp_path)

    assert (ability.can_hibernate, ability.because) == (False, NO_CRIU)


def test_a_criu_that_fails_withdraws_the_offer(tmp_path: Path) -> None:
    ability = self_test(Criu(command=("false",), version="4.2"), tmp_path)

    assert not ability.can_hibernate
    assert ability.because
    assert list(tmp_path.iterdir()) == []


@pytest.mark.criu
def test_where_users_may_have_no_namespaces_it_says_so(criu: Criu, tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs unshare(1) to forbid namespaces in one of its own")
    code = (
        "import sys; from pathlib import Path\n"
        "from gpucommons.gpu.hibernation.criu import Criu\n"
        "from gpucommons.gpu.hibernation.self_test import self_test\n"
        "print(self_test(Criu(command=('true',), version='4.2'), Path(sys.argv[1])).because)"
    )
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    done = subprocess.run(
        [unshare, "-Ur", "sh", "-c", forbid, "sh", sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"this machine forbids it already: {done.stderr}")

    assert done.stdout.startswith("This system forbids users what saving a process needs (unshare")
