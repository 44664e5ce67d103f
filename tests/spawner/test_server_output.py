"""Where a server's lines go, and what it inherits."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpucommons.spawner import server_output
from gpucommons.spawner.local import GpuLocalSpawner
from gpucommons.spawner.server_output import CappedFile

KEEPER = [sys.executable, "-I", "-S", server_output.__file__]
#: Says which files a server has open, and which a kernel of its.
SHOW = """
import json, os, subprocess, sys
def mine():
    return {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{fd}") or int(fd) < 3}
if len(sys.argv) == 1:
    kernel = subprocess.run([sys.executable, __file__, "kernel"], stdout=subprocess.PIPE, stderr=None)
    os.write(1, b"server's line\\n")
    os.write(2, json.dumps({"server": mine(), "kernel": json.loads(kernel.stdout)}).encode() + b"\\n")
else:
    found = mine()
    found["1"] = os.readlink("/proc/self/fd/2")
    print(json.dumps(found))
"""


def until(look: Callable[[], Any]) -> Any:
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        if found := look():
            return found
        time.sleep(0.02)
    message = "it did not happen"
    raise AssertionError(message)


def lines_of(log: Path, count: int) -> list[str]:
    def look() -> list[str] | None:
        lines = log.read_text().splitlines() if log.exists() else []
        return lines if len(lines) >= count else None

    return list(until(look))


def run(spawner: GpuLocalSpawner, program: Path, output: int) -> None:
    """As the hub's spawner starts a server."""
    try:
        subprocess.run(
            [sys.executable, str(program)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=spawner.make_preexec_fn(spawner.user.name),
            env={"PATH": os.environ["PATH"]},
            check=True,
        )
    finally:
        os.close(output)


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Any]:
    """Starts a server that shows its descriptors; nothing else of a hub is there."""
    program = tmp_path / "show.py"
    program.write_text(SHOW)
    tmp_path.chmod(0o755)
    program.chmod(0o644)

    async def begin(name: str, **traits: Any) -> Path:
        one = GpuLocalSpawner(user=SimpleNamespace(name=name), **traits)
        output = await one._open_output()
        run(one, program, output)
        return Path(one._output_account()[1])

    return begin


def assert_nothing_inherited(shown: dict[str, dict[str, str]]) -> None:
    for who in ("server", "kernel"):
        found = shown[who]
        # 3 and up: only what Python itself opened to list them, which is closed again.
        assert set(found) == {"0", "1", "2"}, who
        assert found["0"] == "/dev/null"
        assert found["1"] == found["2"]
        assert found["1"].startswith("pipe:")


async def test_a_server_and_its_kernel_inherit_nothing_of_the_hub(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "hub.log").write_text("")
    with (tmp_path / "hub.log").open("ab") as hub_log:
        os.set_inheritable(hub_log.fileno(), True)
        home = await start(
            "ann", shared_account=True, home_dir_template=f"{tmp_path}/homes/{{username}}"
        )
    line, shown = lines_of(home / ".gpucommons" / "logs" / "notebook.log", 2)

    assert line == "server's line"
    assert_nothing_inherited(json.loads(shown))
    assert (home / ".gpucommons" / "logs" / "notebook.log").stat().st_mode & 0o077 == 0
    assert (tmp_path / "hub.log").read_text() == ""


def keeper(home: Path, *options: str) -> int:
    """The keeper of a log, as the hub starts it; its standard input is the server's output."""
    read_end, write_end = os.pipe()
    words = [*KEEPER, "--home", str(home), *options, "--", "notebook.log"]
    subprocess.run(words, stdin=read_end, check=True, env={}, cwd="/")
    os.close(read_end)
    return write_end


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may start processes as others")
def test_with_accounts_of_their_own_the_file_is_the_users(tmp_path: Path) -> None:
    account = pwd.getpwnam("nobody")
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, account.pw_uid, account.pw_gid)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o011)
    write_end = keeper(home, "--uid", str(account.pw_uid), "--gid", str(account.pw_gid))
    os.write(write_end, b"mine\n")
    os.close(write_end)
    log = home / ".gpucommons" / "logs" / "notebook.log"

    assert lines_of(log, 1) == ["mine"]
    assert log.stat().st_uid == account.pw_uid
    assert log.parent.stat().st_uid == account.pw_uid


@pytest.mark.parametrize(
    "where", [".gpucommons", ".gpucommons/logs", ".gpucommons/logs/notebook.log"]
)
def test_a_link_is_not_followed_and_the_server_goes_on(tmp_path: Path, where: str) -> None:
    target = tmp_path / "target"
    home = tmp_path / "home"
    (home / where).parent.mkdir(parents=True)
    if where.endswith(".log"):
        target.write_text("precious")
    else:
        target.mkdir()
    (home / where).symlink_to(target)
    write_end = keeper(home)
    # More than a pipe holds: somebody reads it.
    for _ in range(40):
        os.write(write_end, b"x" * 10_000)
    os.close(write_end)

    assert target.read_text() == "precious" if target.is_file() else not any(target.iterdir())


def test_a_fifo_in_its_place_keeps_nobody_waiting(tmp_path: Path) -> None:
    folder = tmp_path / ".gpucommons" / "logs"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "notebook.log")
    write_end = keeper(tmp_path)
    for _ in range(40):
        os.write(write_end, b"x" * 10_000)
    os.close(write_end)


def test_two_capped_files_are_all_that_is_kept(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    file = CappedFile(folder, "notebook.log", 100)
    for number in range(50):
        file.write(f"line {number:3}\n".encode())
    os.close(folder)

    newest, older = tmp_path / "notebook.log", tmp_path / "notebook.log.1"
    assert newest.read_text().endswith("line  49\n")
    assert newest.stat().st_size <= 100
    assert older.stat().st_size <= 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notebook.log", "notebook.log.1"]


def test_a_file_of_an_earlier_run_is_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "notebook.log").write_text("before\n")
    folder = os.open(tmp_path, os.O_RDONLY)
    CappedFile(folder, "notebook.log", 100).write(b"after\n")
    os.close(folder)

    assert (tmp_path / "notebook.log").read_text() == "before\nafter\n"


def test_a_server_that_is_interrupted_can_still_say_why(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    before = set(Path("/proc").glob("[0-9]*"))
    subprocess.run(
        [*KEEPER, "--home", str(tmp_path), "--", "notebook.log"], stdin=read_end, check=True
    )
    os.close(read_end)
    for path in set(Path("/proc").glob("[0-9]*")) - before:
        try:
            ours = server_output.__file__.encode() in (path / "cmdline").read_bytes()
        except OSError:
            continue
        if ours:
            os.kill(int(path.name), signal.SIGINT)
    os.write(write_end, b"why\n")
    os.close(write_end)

    assert lines_of(tmp_path / ".gpucommons" / "logs" / "notebook.log", 1) == ["why"]
