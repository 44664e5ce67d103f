"""The self-test says what really works, and never hangs or fails aloud."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from kernel_server import FORBIDS_MOUNTS

from gpucommons.gpu.hibernation import self_test as module
from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.scratch import scratch
from gpucommons.gpu.hibernation.self_test import NO_CRIU, Ability, self_test, self_test_as_nobody
from gpucommons.gpu.hibernation.tree import HibernatableTree
from gpucommons.gpu.hibernation.unused_account import NOBODY, unused_account

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux saves processes")


@pytest.mark.criu
def test_where_it_works_it_measures(criu: Criu, tmp_path: Path) -> None:
    ability = self_test(criu, tmp_path)

    assert ability.can_hibernate, ability.because
    assert ability.save_mib_per_s > 0 < ability.wake_mib_per_s
    assert list(tmp_path.iterdir()) == []


@pytest.mark.criu
def test_what_a_killed_self_test_left_goes_with_the_next(criu: Criu, tmp_path: Path) -> None:
    place = tmp_path / "gpucommons-self-test-killed"
    (place / "tree").mkdir(mode=0o700, parents=True)
    tree = HibernatableTree(place / "tree", criu)
    # As after a kill in the first moment: its caller is one that lives on.
    left = subprocess.Popen(tree.run_command(["sleep", "600"]), stdin=subprocess.DEVNULL)
    assert tree.awake(60) is None
    mine = tmp_path / "self-test-results"
    mine.mkdir()

    ability = self_test(criu, tmp_path)

    assert left.wait(60) == -signal.SIGKILL
    assert ability.can_hibernate, ability.because
    assert list(tmp_path.iterdir()) == [mine]


def test_a_self_test_that_runs_is_left_alone_by_the_next(tmp_path: Path) -> None:
    with scratch(tmp_path) as first:
        (first / "tree").mkdir()
        with scratch(tmp_path) as second:
            assert (first / "tree").exists()
            assert first != second

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
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another account")
def test_root_tries_as_an_account_without_rights_what_it_can_do(criu: Criu) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.chmod(0o755)
        (folder / "open").mkdir()
        (folder / "closed").mkdir(mode=0o700)
        closed = _moved(criu, folder / "closed" / "root")
        ability = self_test_as_nobody(closed, _new(folder / "test"), 60)
        assert not ability.can_hibernate
        assert ability.because

        if "could not run" in ability.because:
            pytest.skip("others cannot run this Python")
        open_to_all = _moved(criu, folder / "open" / "root")
        ability = self_test_as_nobody(open_to_all, _new(folder / "again"), 60)
        assert ability.can_hibernate, ability.because


def test_before_it_tries_anything_it_can_gain_no_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[str] = []

    def tried(*_: object) -> Ability:
        done.append("tried")
        return Ability(can_hibernate=True)

    monkeypatch.setattr(module.calls, "no_new_privileges", lambda: done.append("closed"))
    monkeypatch.setattr(module, "self_test", tried)
    module._main("[]", str(tmp_path), "5")
    assert done == ["closed", "tried"]
    assert '"can_hibernate": true' in capsys.readouterr().out


def test_the_account_without_rights_is_shared_with_nobody_that_can_be_seen(tmp_path: Path) -> None:
    def runs(pid: int, *accounts: int) -> None:
        (tmp_path / str(pid)).mkdir()
        said = "\t".join(map(str, accounts))
        (tmp_path / str(pid) / "status").write_text(f"Name:\tx\nUid:\t{said}\nGid:\t0\t0\t0\t0\n")

    first = unused_account(tmp_path)
    assert 1000 <= first < NOBODY
    # Also one that it may come back to.
    runs(1, 0, 0, first, 0)
    assert unused_account(tmp_path) not in (first, NOBODY)
    runs(2, *range(65520, 65534))
    assert unused_account(tmp_path) == NOBODY


def _new(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    return folder


def _moved(criu: Criu, root: Path) -> Criu:
    """The same CRIU in another folder."""
    own = next(Path(word) for word in criu.command if "/usr/" in word)
    before = Path(str(own).partition("/usr/")[0])
    shutil.copytree(before, root, symlinks=True)
    return Criu(
        command=tuple(word.replace(str(before), str(root)) for word in criu.command), version=""
    )


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


NO_MOUNTS = """
import sys
from pathlib import Path
from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.self_test import self_test
print(self_test(Criu(command=("true",), version="4.2"), Path(sys.argv[1])).because)
"""


def test_where_mounts_are_forbidden_it_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORBIDS_MOUNTS + NO_MOUNTS, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == (
        "This system forbids users what saving a process needs (mount none at /: Permission denied)."
    )
    assert list(tmp_path.iterdir()) == []
