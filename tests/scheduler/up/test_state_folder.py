"""What must last is private, kept over restarts, and held by one ``up`` at a time."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucommons.scheduler.cli import main
from gpucommons.scheduler.up.state_folder import (
    TOKEN_NAMES,
    check_port_free,
    choose_ports,
    lock,
    prepare,
    read_pids,
    write_pids,
    write_private,
)


@pytest.fixture
def root() -> Iterator[Path]:
    # Sockets below it must keep their short paths.
    with tempfile.TemporaryDirectory(prefix="gc") as folder:
        yield Path(folder) / "state"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_that_cannot_be_made_is_named_with_what_to_do(root: Path) -> None:
    root.write_text("a file in its place")
    with pytest.raises(ValueError, match=rf"{root} cannot be made ready: File exists.*--state"):
        prepare(root, open_to_users=False)


def test_folder_and_secrets_are_for_this_account_alone(root: Path) -> None:
    folder = prepare(root, open_to_users=False)
    assert mode(root) == 0o700
    assert mode(root / "tokens") == 0o700
    assert mode(folder.password) == 0o600
    assert all(mode(root / "tokens" / name) == 0o600 for name in TOKEN_NAMES)


def test_a_folder_that_real_accounts_cannot_reach_is_refused(root: Path) -> None:
    root.parent.chmod(0o700)
    with pytest.raises(ValueError, match="Users cannot pass through"):
        prepare(root, open_to_users=True)
    assert not root.exists()


def test_real_accounts_may_pass_through_but_not_look_around(root: Path) -> None:
    root.parent.chmod(0o755)
    prepare(root, open_to_users=True)
    assert mode(root) == 0o711
    assert mode(root / "tokens") == 0o700


def test_secrets_are_kept_and_all_different(root: Path) -> None:
    first = prepare(root, open_to_users=False)
    tokens = [first.token(name) for name in TOKEN_NAMES]
    assert len({*tokens, first.password.read_text()}) == len(TOKEN_NAMES) + 1
    again = prepare(root, open_to_users=False)
    assert [again.token(name) for name in TOKEN_NAMES] == tokens


def test_a_path_too_long_for_sockets_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 90)
    with pytest.raises(ValueError, match="choose a shorter one with --state"):
        prepare(long, open_to_users=False)
    assert not long.exists()


def test_a_second_up_is_refused_and_names_the_first(root: Path) -> None:
    prepare(root, open_to_users=False)
    held = lock(root)
    try:
        with pytest.raises(RuntimeError, match=f"process {os.getpid()}"):
            lock(root)
    finally:
        os.close(held)
    os.close(lock(root))


def test_ports_are_those_of_last_time(root: Path) -> None:
    prepare(root, open_to_users=False)
    ports = choose_ports(root)
    assert len(set(ports.values())) == 4
    assert choose_ports(root) == ports


def test_a_taken_port_is_said_with_its_number(root: Path) -> None:
    prepare(root, open_to_users=False)
    ports = choose_ports(root)
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports["api"]))
        other.listen()
        with pytest.raises(RuntimeError, match=f"Port {ports['api']}, .*is in use"):
            choose_ports(root)
        with pytest.raises(RuntimeError, match="asked for with --port"):
            check_port_free(ports["api"], "asked for with --port")


def test_a_second_up_on_the_same_folder_says_so_in_a_sentence(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(root, open_to_users=False)
    held = lock(root)
    try:
        assert main(["up", "--demo", "--state", str(root)]) == 1
    finally:
        os.close(held)

    said = capsys.readouterr().err
    assert said.startswith(f"gpucommons up: `gpucommons up` runs already on {root}")
    assert said.count("\n") == 1


def test_what_runs_is_remembered(root: Path) -> None:
    prepare(root, open_to_users=False)
    assert list(read_pids(root)) == []
    write_pids(root, {"hub": {"pid": 12, "created": 3.5}})
    assert list(read_pids(root)) == [("hub", 12, 3.5)]


def test_a_private_file_is_replaced_whole_and_never_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("untouched")
    (tmp_path / ".file.new").symlink_to(target)
    write_private(tmp_path / "file", "new")
    assert target.read_text() == "untouched"
    assert (tmp_path / "file").read_text() == "new"
    assert mode(tmp_path / "file") == 0o600
