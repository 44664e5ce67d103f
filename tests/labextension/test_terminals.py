"""Whoever types ``gpucommons`` in a terminal of Lab's runs it, and keeps what their own files say."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from serving import hang_up

from gpucommons.labextension.terminal_path import shell_command

PROGRAMS = Path(sys.executable).parent
TERMINALS = {
    "jpserver_extensions": {"gpucommons.labextension": True, "jupyter_server_terminals": True}
}
#: What a login shell finds before its files are read; `/etc/profile` need not set another.
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


async def said(served: Any, command: str, *, until: str) -> str:
    """What a new terminal prints until a word that the command itself does not hold."""
    made = await served.http.post("api/terminals")
    name = made.json()["name"]
    socket = await served.websocket(f"terminals/websocket/{name}")
    await socket.write_message(json.dumps(["stdin", f"{command}\r"]))
    seen = ""
    async with asyncio.timeout(60):
        while until not in seen:
            text = await socket.read_message()
            assert text is not None, seen
            kind, *content = json.loads(text)
            seen += content[0] if kind == "stdout" else ""
    await hang_up(socket)
    await served.http.delete(f"api/terminals/{name}")
    return seen


@pytest.mark.parametrize("shell", ["/bin/bash", "/bin/sh"])
async def test_a_terminal_finds_the_command_line(
    serve: Any, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    monkeypatch.setenv("SHELL", shell)
    monkeypatch.setenv("PATH", SYSTEM_PATH)
    async with serve(TERMINALS) as served:
        seen = await said(served, "gpucommons --version; echo en''ded $?", until="ended 0\r\n")
        assert f"{version('gpucommons')}\r\n" in seen
        counted = "echo left:$(env | grep -c GPUCOMMONS_PROG''RAMS) en''ded"
        assert "left:0 ended" in await said(served, counted, until="ended")


async def test_the_files_of_a_login_shell_are_read_and_what_is_theirs_comes_first(
    serve: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "with-files"
    home.mkdir()
    (home / ".bash_profile").write_text('. "$HOME/.bashrc"\n')
    (home / ".bashrc").write_text("alias hello='echo from an alias'\nPATH=/own/bin:$PATH\n")
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.setenv("PATH", SYSTEM_PATH)
    monkeypatch.setenv("HOME", str(home))
    async with serve(TERMINALS) as served:
        seen = await said(served, "hello; echo p:$PATH; echo en''ded", until="ended")
    assert "from an alias" in seen
    path = next(line for line in seen.splitlines() if line.startswith("p:")).removeprefix("p:")
    folders = path.split(os.pathsep)
    assert folders[:2] == ["/own/bin", str(PROGRAMS)]


async def test_a_file_that_sets_a_path_of_its_own_loses_nothing(
    serve: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "own-path"
    home.mkdir()
    (home / ".profile").write_text("PATH=/usr/bin:/bin\n")
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.setenv("HOME", str(home))
    async with serve(TERMINALS) as served:
        seen = await said(served, "echo p:$PATH; echo en''ded", until="ended")
    assert f"p:/usr/bin:/bin:{PROGRAMS}" in seen


async def test_who_configured_a_shell_has_that(serve: Any) -> None:
    theirs = {"shell_command": ["/bin/cat"]}
    async with serve({**TERMINALS, "terminado_settings": theirs}) as served:
        manager = served.app.web_app.settings["terminal_manager"]
        assert manager.shell_command == theirs["shell_command"]


def test_a_shell_that_is_not_known_is_started_as_jupyter_does() -> None:
    assert shell_command({"SHELL": "/bin/tcsh"}, programs=PROGRAMS) is None
    assert shell_command({}, programs=PROGRAMS) is not None
