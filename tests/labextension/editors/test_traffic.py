from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpucommons.labextension.editors.traffic import LEAST_BYTES, Traffic


class Connection:
    """One websocket."""


def test_signs_of_life_of_an_open_editor_are_no_activity() -> None:
    traffic, page = Traffic(now_ms=lambda: 5), Connection()
    assert not traffic.takes(page, b"\x09" + bytes(12))
    assert not traffic.takes(page, "x" * (LEAST_BYTES - 1))
    assert traffic.last_ms == 0


def test_a_message_that_says_something_is() -> None:
    moments = iter([5, 9])
    traffic, page = Traffic(now_ms=lambda: next(moments)), Connection()
    assert traffic.takes(page, bytes(LEAST_BYTES))
    assert traffic.takes(page, "x" * 1000)
    assert traffic.last_ms == 9


def test_what_vs_code_does_of_its_own_is_none_beside_what_its_user_does() -> None:
    traffic, own, users = Traffic(now_ms=lambda: 5), Connection(), Connection()
    hello = '{"type":"connectionType","signedData":"%s","desiredConnectionType":%d}'
    assert not traffic.takes(own, hello % ("x" * LEAST_BYTES, 1))
    assert not traffic.takes(own, b'remoteFilesystem.writeFile{"path":"state.json"}' + bytes(700))
    assert traffic.last_ms == 0
    traffic.takes(users, hello % ("", 2))
    assert traffic.takes(users, b"$acceptModelChanged" + bytes(1000))


def test_without_jupyter_server_proxy_nothing_is_listened_to() -> None:
    assert find_spec("jupyter_server_proxy") is None
    Traffic().listen()


def test_another_jupyter_server_proxy_keeps_nothing_from_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    package = tmp_path / "jupyter_server_proxy"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "handlers.py").write_text("class ProxyHandler:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        Traffic().listen()
    finally:
        for name in (package.name, f"{package.name}.handlers"):
            sys.modules.pop(name, None)
    assert "work in editors is not seen" in caplog.text


def of_files(*paths: str) -> bytes:
    """As VS Code 1.139 sends it, behind an acknowledgement."""
    changed = [
        {"$mid": 1, "path": path, "scheme": "vscode-remote", "authority": "127.0.0.1:13406"}
        for path in paths
    ]
    told = json.dumps([{"created": [], "changed": changed, "deleted": []}], separators=(",", ":"))
    head = b"\x01\x00\x00\x00\x0e\x0cf\x0c$onFileEvent\x00\x00\x00"
    return bytes(13) + head + bytes([len(told) % 256]) + told.encode()


def test_files_that_are_written_in_the_open_folder_are_no_activity() -> None:
    traffic, page = Traffic(now_ms=lambda: 7), Connection()
    lock = "/home/ann/.local/share/code-server/User/workspaceStorage/-412d284d/vscode.lock"
    for message in (of_files(lock), of_files(*[lock] * 9), of_files(lock) + of_files(lock)):
        assert len(message) > 200
        assert not traffic.takes(page, message)
    # What somebody does at the same moment comes in the same message.
    assert traffic.takes(page, of_files(lock) + bytes(250))


def test_many_signs_of_life_in_one_message_are_no_activity() -> None:
    traffic, page = Traffic(now_ms=lambda: 7), Connection()

    def said(body: bytes) -> bytes:
        return b"\x01" + bytes(8) + len(body).to_bytes(4, "big") + body

    assert not traffic.takes(page, said(b"") * 50)
    assert not traffic.takes(page, said(b"$onDidTunnelsChange[]") * 50)
    assert traffic.takes(page, said(b"") * 50 + said(b"$acceptModelChanged" + bytes(200)))
