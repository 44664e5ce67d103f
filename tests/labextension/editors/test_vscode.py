"""The slice in VS Code's status bar: what is started, what is installed, what the item says."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from traitlets.config import Config

from gpucommons.labextension.editors import vscode
from gpucommons.labextension.editors.vscode import (
    EXTENSION,
    SOCKET,
    completed,
    install,
    is_there,
    socket_url,
    vsix,
)

ABOUT = json.loads((EXTENSION / "package.json").read_text())
NOW = 1_800_000_000_000
LEASE = {"slice": {"milli_gpu": 500}, "team": "vision", "pool": "gpu", "idle": {}}
SAMPLE = {"compute_percent": 37, "memory_used_mib": 12900, "memory_limit_mib": 19866}


def server(**changes: Any) -> Any:
    known = {
        "ip": "", "port": 8888, "base_url": "/user/ann/", "sock": "", "certfile": "",
        "identity_provider": SimpleNamespace(token="a/b"),
    }  # fmt: skip
    return SimpleNamespace(**known | changes)


def test_the_editor_is_told_where_the_server_is_when_it_starts() -> None:
    asked: list[str] = []
    entry = completed(
        {"command": lambda port, unix_socket: ["code-server", unix_socket], "timeout": 300},
        lambda: asked.append("now") or "ws://here",  # type: ignore[func-returns-value]
    )

    assert asked == []
    assert entry["environment"]() == {SOCKET: "ws://here"}
    begin = entry["command"](0, "/a/socket")
    assert begin[-2:] == ["code-server", "/a/socket"]
    assert vscode.__name__ in begin
    assert entry["timeout"] == 300


def test_no_editor_listens_where_other_users_of_the_machine_reach_it() -> None:
    """As jupyter-vscode-proxy 0.7 has it for both."""

    def begun(program: str) -> list[str]:
        words = [program, "--socket", "{unix_socket}", "--socket-mode", "0600", "."]
        entry = completed({"command": lambda port, unix_socket: words}, lambda: "")
        return list(entry["command"](0, "/a/socket"))

    assert begun("openvscode-server")[-4:] == [
        "openvscode-server", "--socket-path", "{unix_socket}", "."
    ]  # fmt: skip
    assert begun("code-server")[-6:-4] == ["code-server", "--socket"]


@pytest.mark.parametrize(
    ("changes", "environ", "url"),
    [
        ({}, {}, "ws://127.0.0.1:8888/user/ann/gpucommons/ws?token=a%2Fb"),
        (
            {"ip": "10.0.0.7"},
            {"JUPYTERHUB_API_TOKEN": "hub"},
            "ws://10.0.0.7:8888/user/ann/gpucommons/ws?token=hub",
        ),
        ({"ip": "::1"}, {}, "ws://[::1]:8888/user/ann/gpucommons/ws?token=a%2Fb"),
        ({"identity_provider": SimpleNamespace(token="")}, {}, ""),
        ({"sock": "/a/socket"}, {}, ""),
        ({"certfile": "a.pem"}, {}, ""),
    ],
)
def test_where_a_server_cannot_be_asked_no_address_is_given(
    changes: dict[str, Any], environ: dict[str, str], url: str
) -> None:
    assert socket_url(server(**changes), environ) == url


def test_the_package_is_the_same_each_time_and_names_what_it_holds(tmp_path: Path) -> None:
    first, second = tmp_path / "first.vsix", tmp_path / "second.vsix"
    vsix(EXTENSION, first)
    vsix(EXTENSION, second)

    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as packed:
        assert {"extension/package.json", "extension/extension.js"} < set(packed.namelist())
        manifest = packed.read("extension.vsixmanifest").decode()
    assert f'Id="{ABOUT["name"]}" Version="{ABOUT["version"]}"' in manifest
    assert ABOUT["license"] == "BSD-3-Clause"


def editor(folder: Path, *, has: str = "", fails: bool = False) -> list[str]:
    """A program that lists what it has, and notes what it is asked."""
    program = folder / "an editor"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> "{folder}/asked"\necho "{has}"\nexit {int(fails)}\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return [str(program), "--auth", "none", "--extensions-dir", "/theirs", "."]


def asked(folder: Path) -> list[str]:
    return (folder / "asked").read_text().splitlines()


def test_what_is_not_there_yet_is_installed_where_the_editor_looks(tmp_path: Path) -> None:
    install(editor(tmp_path, has="ms.python@1.0"))

    listing, installing = asked(tmp_path)
    assert listing == "--extensions-dir /theirs --list-extensions --show-versions"
    assert installing.startswith("--extensions-dir /theirs --install-extension /")


def test_it_is_installed_once(tmp_path: Path) -> None:
    name = f"{ABOUT['publisher']}.{ABOUT['name']}@{ABOUT['version']}"
    install(editor(tmp_path, has=name))

    assert len(asked(tmp_path)) == 1
    assert is_there(f"ms.python@1.0\n{name}\n")
    assert not is_there(f"{name}-beta")


def test_an_editor_that_installs_nothing_starts_as_well(tmp_path: Path) -> None:
    install(editor(tmp_path, fails=True))
    install(["/no/such/program"])


def offered(config: Config, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What jupyter-server-proxy is told to serve then."""
    proxy = SimpleNamespace(setup_vscode=lambda: {"command": lambda port, unix_socket: ["x"]})
    monkeypatch.setitem(sys.modules, "jupyter_vscode_proxy", proxy)
    monkeypatch.setattr(vscode, "find_spec", lambda _name: object())
    vscode.offer(SimpleNamespace(config=config))
    return config.ServerProxy.servers


def test_what_an_admin_configured_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"command": ["theirs"]}
    config = Config()
    config.ServerProxy.servers = {"vscode": own}
    assert offered(config, monkeypatch)["vscode"] is own


def test_labs_launcher_has_one_tile_which_is_the_proxys_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = offered(Config(), monkeypatch)["vscode"]
    assert entry["launcher_entry"] == {"enabled": False}


def test_what_an_admin_added_to_the_list_is_served_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = Config()
    config.ServerProxy.servers.update({"board": {"command": ["board"]}})
    assert offered(config, monkeypatch).keys() == {"vscode", "board"}


def shown(lease: Any, sample: Any) -> Any:
    """What the extension makes of it, in the program that VS Code runs extensions in."""
    return answer("shown", lease, sample, NOW)


def answer(name: str, *values: Any) -> Any:
    """What a function of the extension gives for these values."""
    given = ", ".join(map(json.dumps, values))
    return json.loads(of_extension(f"console.log(JSON.stringify(it.{name}({given})))"))


def of_extension(script: str) -> str:
    """What a script prints that has the extension as ``it``."""
    node = shutil.which("node", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert node is not None
    begin = f"const it = require({json.dumps(str(EXTENSION / 'extension.js'))});"
    said = subprocess.run([node, "-e", begin + script], capture_output=True, text=True, check=True)
    return said.stdout


@pytest.mark.parametrize(
    ("lease", "sample", "text"),
    [
        (LEASE, SAMPLE, "GPU ½ · 37 % · 12.6/19.4 GiB"),
        (LEASE | {"slice": {"milli_gpu": 1250}}, None, "GPU 1¼ · no data"),
        (
            LEASE | {"idle": {"returns_ms": NOW + 9 * 60_000}},
            SAMPLE | {"compute_percent": 0},
            "GPU ½ · 0 % · 12.6/19.4 GiB · idle: goes back in 9 min",
        ),
        (
            LEASE | {"idle": {"returns_ms": NOW}},
            SAMPLE,
            "GPU ½ · 37 % · 12.6/19.4 GiB · idle: its time is up",
        ),
        (LEASE | {"parked_ms": NOW}, SAMPLE, "GPU ½ parked"),
        (None, SAMPLE, "GPU · 37 % · 12.6/19.4 GiB"),
    ],
)
def test_the_item_says_what_the_slice_is_used_for_and_when_it_goes_back(
    lease: Any, sample: Any, text: str
) -> None:
    assert shown(lease, sample)["text"] == text


def test_there_is_no_item_where_there_is_no_gpu() -> None:
    assert shown(None, None) is None
    assert shown({"slice": None}, None) is None


def test_only_a_gpu_that_is_about_to_go_back_stands_out() -> None:
    assert not shown(LEASE, SAMPLE)["warns"]
    assert shown(LEASE | {"idle": {"returns_ms": NOW}}, SAMPLE)["warns"]
    assert "Keep" in shown(LEASE, SAMPLE)["tip"]


@pytest.mark.parametrize(
    ("address", "port", "state", "uid", "others"),
    [
        ("0100007F", 8888, "0A", 1001, True),
        ("00000000000000000000000000000000", 8888, "0A", 1001, True),
        ("0100007F", 8888, "0A", 1000, False),
        ("0100007F", 8887, "0A", 1001, False),
        ("0100007F", 8888, "01", 1001, False),
    ],
)
def test_a_port_that_another_account_took_is_known(
    address: str, port: int, state: str, uid: int, others: bool
) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid"
    row = f"   3: {address}:{port:04X} 00000000:0000 {state} 0:0 00:0 0 {uid:5} 0 1"
    assert answer("isOthers", 8888, [f"{head}\n{row}\n", ""], 1000) is others


@pytest.mark.parametrize(("uid", "told"), [(os.geteuid(), True), (os.geteuid() + 1, False)])
def test_whoever_took_the_port_of_a_server_that_has_gone_is_not_told_its_token(
    uid: int, told: bool
) -> None:
    """As account of another number than that of the program that listens there."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        script = (
            f"process.getuid = () => {uid}; const told = [];"
            "globalThis.WebSocket = class { constructor(url) { told.push(url); } };"
            f"it.follow('ws://127.0.0.1:{port}/ws?token=t', () => {{}}, () => false);"
            "console.log(told.length); process.exit();"
        )
        assert of_extension(script) == f"{int(told)}\n"


def test_the_last_text_before_the_server_ends_stays_true_after_it() -> None:
    """VS Code's page keeps it: nobody is there any more who could draw another."""
    idle = {"type": "lease", "lease": LEASE | {"idle": {"returns_ms": NOW + 9_000}}}
    said = of_extension(
        "const timers = [], item = { show() {}, hide() {} }; let now = " + str(NOW) + ", socket;"
        "const vscode = { StatusBarAlignment: {}, ThemeColor: class {},"
        " window: { createStatusBarItem: () => item } };"
        "const { _load } = require('module');"
        "require('module')._load = (name, ...more) => name === 'vscode' ? vscode : _load(name, ...more);"
        "Date.now = () => now; globalThis.setInterval = () => {};"
        "globalThis.setTimeout = (call, ms) => timers.push([call, ms]);"
        "globalThis.WebSocket = class { constructor() { socket = this; } };"
        "process.env.GPUCOMMONS_EDITOR_SOCKET = 'ws://127.0.0.1:1/ws';"
        "it.activate({ subscriptions: [] });"
        f"socket.onmessage({{ data: {json.dumps(json.dumps(idle))} }});"
        "const before = item.text; const [[call, ms]] = timers; now += ms; call();"
        "console.log(JSON.stringify([ms, before, item.text, item.tooltip]))"
    )
    ms, before, after, tip = json.loads(said)
    assert (ms, before) == (9_000, "GPU ½ · no data · idle: goes back in 1 min")
    assert after == "GPU ½ · no data · idle: its time is up"
    assert "start it again on the hub" in tip


def test_a_lease_that_was_told_before_the_server_went_is_not_shown_after_it() -> None:
    usage = {"type": "usage", "state": "ok", "samples": [SAMPLE]}
    told = of_extension(
        "const all = [], told = [];"
        "globalThis.WebSocket = class { constructor() { all.push(this); } };"
        "globalThis.setTimeout = call => call();"
        "it.follow('ws://here', (lease, sample) => told.push([lease, sample]), () => false);"
        f"all[0].onmessage({{ data: {json.dumps(json.dumps({'type': 'lease', 'lease': LEASE}))} }});"
        "all[0].onclose();"
        f"all[1].onmessage({{ data: {json.dumps(json.dumps(usage))} }});"
        "console.log(JSON.stringify(told))"
    )
    assert json.loads(told) == [[LEASE, None], [None, None], [None, SAMPLE]]


def test_vs_code_keeps_the_path_and_finds_the_programs_of_the_notebooks_environment() -> None:
    programs = Path("/opt/notebook/bin")
    found = vscode.with_programs({"PATH": "/usr/bin:/bin", "HOME": "/home/ann"}, programs)
    # By the second one it does not ask a login shell, whose /etc/profile sets PATH anew.
    assert found == {
        "PATH": "/opt/notebook/bin:/usr/bin:/bin", "VSCODE_CLI": "1", "HOME": "/home/ann",
    }  # fmt: skip
    assert vscode.with_programs(found, programs)["PATH"] == found["PATH"]
