from __future__ import annotations

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
