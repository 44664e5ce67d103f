"""Editors behind the real jupyter-server-proxy, with our extension beside: what counts as activity, and a real sshd."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from free_ports import free_port
from playwright.async_api import async_playwright
from tornado.httpclient import HTTPRequest
from tornado.web import Application
from tornado.websocket import WebSocketHandler, websocket_connect
from ui.browser import launch

from benchmarks.real_scripts import environment
from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.gpu.linux.servers import editor_folders, is_page_helper

BESIDE = environment.find(environment.EDITORS)
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]

PATIENCE_S = 90.0
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
NO_SSHD = "needs an sshd (Debian: openssh-server)"
SECRET = "secret-of-the-server"
#: Where it may be kept apart: npm compiles parts of it, for 2 to 17 minutes (howto/work-in-vs-code).
KEPT = Path.home() / ".cache/gpucommons/code-server/node_modules/.bin"
CODE_SERVER = shutil.which("code-server", path=f"{os.environ['PATH']}:{KEPT}")
NO_CODE_SERVER = f"code-server is neither on the path nor in {KEPT} (npm install code-server)"
#: A page with a websocket, as an editor is one; and an extension that tells what would be reported.
PROGRAMS = {
    "an_editor.py": """
import sys
from tornado import ioloop, web, websocket

class Page(web.RequestHandler):
    def get(self):
        self.write("hello")

class Socket(websocket.WebSocketHandler):
    def on_message(self, message):
        self.write_message(message, binary=isinstance(message, bytes))

web.Application([("/", Page), ("/ws", Socket)]).listen(int(sys.argv[1]), "127.0.0.1")
ioloop.IOLoop.current().start()
""",
    "told.py": """
import os
from jupyter_server.base.handlers import APIHandler
from gpucommons.labextension.activity.collector import collector_for

def _jupyter_server_extension_points():
    return [{"module": "told"}]

def _load_jupyter_server_extension(app):
    points = app.extension_manager.extension_apps["gpucommons.labextension"]
    ours = next(iter(points))
    collector = collector_for(app, os.environ, lambda: ours._traffic.last_ms)

    class Told(APIHandler):
        async def get(self):
            report = await collector.collect()
            times = {k: v.timestamp() for k, v in self.settings["last_activity_times"].items()}
            self.finish({"kernels": report.model_dump()["kernels"], "times": times})

    app.web_app.add_handlers(".*", [("/told", Told)])
""",
}
#: As a user without rights, whose account nobody here has to make: a root may run the tests.
AS_ANN = """
mount --bind passwd /etc/passwd && mount --bind group /etc/group && mount --bind empty /etc/shadow &&
mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts && mount --bind /dev/pts/ptmx /dev/ptmx &&
exec unshare --user --map-user=1000 --map-group=1000 "$@"
"""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A notebook server on a slice."""

    port: int
    folder: Path

    def told(self) -> Any:
        """What would be reported, and what plain cullers read."""
        headers = {"Authorization": "token t"}
        answer = httpx.get(f"http://127.0.0.1:{self.port}/told", headers=headers, timeout=60)
        assert answer.is_success, answer.text
        return answer.json()

    def editor_ms(self) -> int | None:
        """When somebody last worked in an editor."""
        found = [one for one in self.told()["kernels"] if one["name"] == "editor"]
        return found[0]["last_active_ms"] if found else None

    def send(self, path: str, *messages: bytes) -> None:
        """As a page would, and wait until each came back."""

        async def talk() -> None:
            url = f"ws://127.0.0.1:{self.port}/{path}"
            headers = {"Authorization": "token t"}
            page = await websocket_connect(HTTPRequest(url, headers=headers, request_timeout=60))
            for message in messages:
                await page.write_message(message, binary=True)
                assert await page.read_message() == message
            page.close()
            assert await page.read_message() is None  # It is closed when the other side says so.

        asyncio.run(talk())

    def ssh(self, command: str | None = None) -> subprocess.Popen[str]:
        """As somebody from outside, through the websocket; without a command a terminal."""
        through = f"{sys.executable} {self.folder}/through.py ws://127.0.0.1:{self.port}/sshd/"
        options = [f"ProxyCommand={through}", "StrictHostKeyChecking=no", "LogLevel=ERROR"]
        options += [f"UserKnownHostsFile={self.folder}/hosts", "BatchMode=yes"]
        words = ["ssh", "-F", "none", "-i", str(self.folder / "key")]
        words += [word for option in options for word in ("-o", option)]
        user = getpass.getuser() if os.geteuid() else "ann"
        words += [f"{user}@notebook", command] if command else ["-tt", f"{user}@notebook"]
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


#: What websocat is to users.
THROUGH = """
import asyncio, os, sys
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

async def main():
    page = await websocket_connect(HTTPRequest(sys.argv[1], headers={"Authorization": "token t"}))
    loop = asyncio.get_running_loop()
    def read():
        if data := os.read(0, 65536):
            page.write_message(data, binary=True)
        else:
            loop.remove_reader(0)
            page.close()
    loop.add_reader(0, read)
    while (message := await page.read_message()) is not None:
        os.write(1, message)

asyncio.run(main())
"""


def wait_for(is_so: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.2)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if BESIDE is None:
        pytest.fail(environment.HOW_TO_GET)
    folder, port = tmp_path_factory.mktemp("editors"), free_port()
    for name, text in {**PROGRAMS, "through.py": THROUGH}.items():
        (folder / name).write_text(text)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True
    )
    (folder / "sockets").mkdir()
    (folder / ".ssh").mkdir(mode=0o700)
    # Theirs is an RSA key, which takes seconds.
    (folder / ".ssh" / "jupyter_sshd_hostkey").write_bytes((folder / "key").read_bytes())
    (folder / ".ssh" / "jupyter_sshd_hostkey").chmod(0o600)
    asked = {
        "ServerApp": {
            "port": port, "ip": "127.0.0.1", "root_dir": str(folder), "open_browser": False,
            "allow_root": True, "jpserver_extensions": {"jupyter_server_proxy": True, "told": True},
        },
        "IdentityProvider": {"token": "t"},
        "ServerProxy": {
            "servers": {"an-editor": {"command": [sys.executable, "an_editor.py", "{port}"]}},
        },
    }  # fmt: skip
    (folder / "jupyter_server_config.json").write_text(json.dumps(asked))
    log = folder / "server.log"
    with log.open("w") as out:
        started = subprocess.Popen(
            [*as_ann(folder), sys.executable, "-m", "jupyter_server"],
            env={**os.environ, **places(folder)}, cwd=folder, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}/api/status"
        wait_for(lambda: started.poll() is not None or _answers(url))
        assert started.poll() is None, log.read_text()
        yield Server(port=port, folder=folder)
    finally:
        started.terminate()
        started.wait(30)


def places(folder: Path) -> dict[str, str]:
    """What a spawner would say, and where nothing of this machine's user lies."""
    own = {name: str(folder) for name in ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    return {
        **own, "PYTHONPATH": f"{BESIDE}:{folder}", "SHELL": "/bin/sh",
        "JUPYTER_RUNTIME_DIR": str(folder / "run"), "TMPDIR": str(folder / "sockets"),
        "CUDA_VISIBLE_DEVICES": "GPU-seven", "JUPYTERHUB_API_TOKEN": SECRET,
        "JUPYTER_SSHD_PROXY_AUTHORIZED_KEYS_PATH": str(folder / "key.pub"),
        "PATH": f"{os.environ['PATH']}:{KEPT}:/usr/sbin",
    }  # fmt: skip


def as_ann(folder: Path) -> list[str]:
    if os.geteuid():
        return []
    (folder / "passwd").write_text(f"ann:x:1000:1000::{folder}:/bin/sh\n")
    (folder / "group").write_text("ann:x:1000:\n")
    (folder / "empty").touch()
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", AS_ANN, "sh"]


def _answers(url: str) -> bool:
    try:
        return httpx.get(
            url, headers={"Authorization": "token t"}, verify=trusted_at(url)
        ).is_success
    except httpx.HTTPError:
        return False


def test_an_open_tab_is_no_activity_and_what_is_done_in_it_is(server: Server) -> None:
    server.send("an-editor/ws", bytes(13), bytes(13))
    before = server.told()["times"].get("jupyter-server-proxy")
    assert server.editor_ms() is None
    server.send("an-editor/ws", bytes(13), bytes(100))
    assert server.told()["times"].get("jupyter-server-proxy") == before
    # VS Code has a connection for its own needs, which writes files every five seconds.
    of_its_own = b'{"type":"connectionType","desiredConnectionType":1}'
    server.send("an-editor/ws", of_its_own, bytes(800))
    assert server.editor_ms() is None
    server.send("an-editor/ws", of_its_own.replace(b"1", b"2"), bytes(400))
    seen = server.editor_ms()
    assert seen is not None
    # Plain cullers, who ask the hub, know of it as well.
    assert server.told()["times"]["jupyter-server-proxy"] == pytest.approx(seen / 1000, abs=5)


@pytest.mark.skipif(SSHD is None, reason=NO_SSHD)
def test_who_comes_by_ssh_is_on_the_slice_and_no_secret_stands_on_a_command_line(
    server: Server,
) -> None:
    names = "CUDA_VISIBLE_DEVICES", "JUPYTERHUB_API_TOKEN"
    code = f"import os; print([os.environ[name] for name in {names}])"
    with server.ssh(shlex.join([sys.executable, "-c", code])) as session:
        shown, _ = session.communicate(timeout=60)
    assert shown == f"{['GPU-seven', SECRET]}\n"
    listed = subprocess.run(["ps", "-wweo", "args"], capture_output=True, text=True, check=True)
    assert "ForceCommand" in listed.stdout
    assert SECRET not in listed.stdout


@pytest.mark.skipif(SSHD is None, reason=NO_SSHD)
def test_typing_into_a_terminal_by_ssh_is_activity_and_one_that_is_open_is_none(
    server: Server,
) -> None:
    with server.ssh() as session:
        keys, screen = session.stdin, session.stdout
        assert keys is not None
        assert screen is not None

        def type_a_line() -> None:
            keys.write("echo $((6 * 7))\n")
            keys.flush()
            while not screen.readline().endswith("42\n"):  # behind a prompt
                pass

        type_a_line()
        opened = server.editor_ms()
        assert opened is not None
        assert server.editor_ms() == opened

        def typed() -> bool:
            """The system counts the times of terminals in steps of 8 s."""
            type_a_line()
            return (server.editor_ms() or 0) > opened

        wait_for(typed)
        keys.write("exit\n")
        session.communicate(timeout=60)


@pytest.mark.skipif(CODE_SERVER is None, reason=NO_CODE_SERVER)
def test_vs_code_answers_at_a_socket_of_its_user_alone(server: Server) -> None:
    page = httpx.get(
        f"http://127.0.0.1:{server.port}/vscode/",
        headers={"Authorization": "token t"}, follow_redirects=True, timeout=120,
    )  # fmt: skip
    assert page.is_success
    assert "workbench" in page.text
    commands = [one.info["cmdline"] or [] for one in psutil.process_iter(["cmdline"])]
    below = f"{server.folder}/sockets/"
    first = next(one for one in commands if any(word.startswith(below) for word in one))
    assert not [word for word in first if word.startswith("--port")]
    socket = Path(first[first.index("--socket") + 1])
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    # It is known for an editor, and its folder is found through the links of npm.
    folders = editor_folders(places(server.folder))
    assert is_page_helper(first, folders)
    assert any((Path(folder) / "lib/vscode/product.json").is_file() for folder in folders)


@pytest.mark.skipif(CODE_SERVER is None, reason=NO_CODE_SERVER)
async def test_vs_code_shows_the_slice_in_its_status_bar(tmp_path: Path) -> None:
    lease = {"slice": {"milli_gpu": 500}, "team": "vision", "pool": "gpu", "idle": {}}
    sample = {"compute_percent": 37, "memory_used_mib": 12900, "memory_limit_mib": 19866}

    class Told(WebSocketHandler):
        def open(self, *_arguments: str, **_options: str) -> None:
            self.write_message({"type": "usage", "state": "ok", "samples": [sample]})
            self.write_message({"type": "lease", "lease": lease})

    port, own = free_port(), free_port()
    listening = Application([("/gpucommons/ws", Told)]).listen(own, "127.0.0.1")
    socket = f"ws://127.0.0.1:{own}/gpucommons/ws"
    # A folder that holds the extension itself, as a home does, has to be trusted first.
    options = ["--auth", "none", "--disable-workspace-trust", f"--port={port}", str(tmp_path)]
    assert CODE_SERVER is not None
    begin = [sys.executable, "-m", "gpucommons.labextension.editors.vscode", CODE_SERVER]
    started = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
        [*begin, *options],
        env={**os.environ, "HOME": str(tmp_path), "GPUCOMMONS_EDITOR_SOCKET": socket},
        start_new_session=True,
    )
    try:
        await asyncio.to_thread(wait_for, lambda: _answers(f"http://127.0.0.1:{port}/healthz"))
        async with async_playwright() as playwright:
            browser = await launch(playwright.chromium)
            page = await browser.new_page()
            await page.goto(f"http://127.0.0.1:{port}/", timeout=120_000)
            item = page.get_by_text("GPU ½ · 37 % · 12.6/19.4 GiB")
            await item.first.wait_for(timeout=120_000)
            await page.keyboard.press("Control+Backquote")
            terminal = page.locator(".xterm-helper-textarea").first
            await terminal.wait_for(state="attached", timeout=120_000)
            await terminal.focus()
            await page.keyboard.type("command -v gpucommons python > found 2>&1; mv found told\n")
            await asyncio.to_thread(wait_for, (tmp_path / "told").exists)
            await browser.close()
    finally:
        os.killpg(started.pid, signal.SIGTERM)
        started.wait(30)
        listening.stop()
    programs = Path(sys.executable).parent
    assert (tmp_path / "told").read_text().split() == [
        str(programs / name) for name in ("gpucommons", "python")
    ]
