"""A real Jupyter Server with our extension as a process of its own: it can be stopped and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import websocket
from free_ports import free_port

from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.gpu.hibernation.criu import Criu, find_criu, state_folder

TOKEN = "kernel-server"
_SERVE = "from jupyter_server.serverapp import main; main()"
_PATIENCE_S = 120


#: A prelude, or any program's beginning: a filter of system calls answers mount(2) as AppArmor's usual profile
#: of containers does.
FORBIDS_MOUNTS = """
import ctypes, platform, struct
libc = ctypes.CDLL(None, use_errno=True)
mount = {"x86_64": 165, "aarch64": 40}[platform.machine()]
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, mount), (0x06, 0, 0, 0x0005000D), (0x06, 0, 0, 0x7FFF0000)]
code = b"".join(struct.pack("HBBI", *step) for step in steps)
code = ctypes.create_string_buffer(code, len(code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)), 16)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0
"""


def until(look: Callable[[], Any], what: str, patience_s: float = _PATIENCE_S) -> Any:
    end = time.monotonic() + patience_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            message = f"{what} did not happen within {patience_s:g} s"
            raise AssertionError(message)
        time.sleep(0.02)


def criu_of_tests() -> str:
    """Where the CRIU of the tests is; skips where there is none."""
    found = find_criu(os.environ)
    if found is not None:
        return os.environ.get("GPUCOMMONS_CRIU") or _root_of(found)
    if os.environ.get("REQUIRE_CRIU") == "1":
        pytest.fail("there is no CRIU: `make setup-hibernation` gets it")
    pytest.skip("there is no CRIU: `make setup-hibernation` gets it")


def _root_of(criu: Criu) -> str:
    """As the variable names it: the folder that it was unpacked into, or the program."""
    own = state_folder(os.environ) / "root"
    return str(own) if criu.command[-1].startswith(str(own)) else criu.command[-1]


class Page:
    """One page's connection to a kernel."""

    def __init__(self, url: str, token: str, session: str | None = None) -> None:
        self.session = session or uuid.uuid4().hex
        self.socket = websocket.create_connection(
            f"{url}/channels?session_id={self.session}",
            header=[f"Authorization: token {token}"],
            suppress_origin=True,
            timeout=_PATIENCE_S,
        )
        #: What came for other requests while one was followed: a kernel's channels keep no common order.
        self._others: list[dict[str, Any]] = []

    def close(self) -> None:
        self.socket.close()

    def send(
        self,
        code: str,
        channel: str = "shell",
        kind: str = "execute_request",
        *,
        cell: str | None = None,
        subshell: str | None = None,
        may_ask: bool = False,
    ) -> str:
        number = uuid.uuid4().hex
        header = {
            "msg_id": number,
            "username": "test",
            "session": self.session,
            "msg_type": kind,
            "version": "5.3",
            **({} if subshell is None else {"subshell_id": subshell}),
        }
        content: dict[str, Any] = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": may_ask,
            "stop_on_error": True,
        }
        if kind != "execute_request":
            content = json.loads(code)
        message = {
            "header": header,
            "parent_header": {},
            "metadata": {} if cell is None else {"cellId": cell},
            "content": content,
            "channel": channel,
            "buffers": [],
        }
        self.socket.send(json.dumps(message))
        return number

    def messages(self, number: str) -> Iterator[dict[str, Any]]:
        """What comes for this request."""
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            message = next((one for one in self._others if _asked(one) == number), None)
            if message is not None:
                self._others.remove(message)
                yield message
                continue
            # Messages for others must not make it wait longer than it has patience.
            self.socket.settimeout(max(0.1, end - time.monotonic()))
            message = json.loads(self.socket.recv())
            if _asked(message) == number:
                yield message
            else:
                self._others.append(message)
        raise AssertionError("the kernel did not answer")

    def printed(self, number: str, *, until: str) -> str:
        """What a cell prints, up to this."""
        printed = ""
        for message in self.messages(number):
            if message["msg_type"] == "stream":
                printed += message["content"]["text"]
            if until in printed:
                return printed
        raise AssertionError("unreachable")

    def until_done(self, number: str) -> str:
        """All that a cell printed, or its error."""
        printed, replied, idle = "", False, False
        for message in self.messages(number):
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    printed += content["text"]
                case "error":
                    printed += f"{content['ename']}: {content['evalue']}"
                case "execute_reply":
                    replied = True
                case "status":
                    idle = content["execution_state"] == "idle"
            if replied and idle:
                return printed
        raise AssertionError("unreachable")

    def run(self, code: str) -> str:
        return self.until_done(self.send(code)).strip()


def _asked(message: dict[str, Any]) -> str | None:
    number: str | None = message["parent_header"].get("msg_id")
    return number


@dataclass
class KernelServer:
    """Start it as often as needed: its home stays."""

    home: Path
    environ: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    pages: list[Page] = field(default_factory=list)
    #: Runs in the server's process before the server does.
    prelude: str = ""

    @property
    def work(self) -> Path:
        return self.home / "work"

    @property
    def log(self) -> Path:
        return self.home / "server.log"

    def start(self) -> KernelServer:
        self.work.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command(), env=self._env(), cwd=self.work, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        until(self._answers, "the start of the server")
        return self

    def _command(self) -> list[str]:
        extensions = {"gpucommons.labextension": True, "jupyterlab": False, "notebook": False}
        program = ("-c", f"{self.prelude}\n{_SERVE}") if self.prelude else ("-m", "jupyter_server")
        return [
            *(sys.executable, *program, "--no-browser", "--allow-root"),
            *("--ip=127.0.0.1", f"--port={self.port}", "--ServerApp.port_retries=0"),
            f"--IdentityProvider.token={TOKEN}",
            f"--ServerApp.root_dir={self.work}",
            f"--ServerApp.jpserver_extensions={extensions}",
        ]

    def _env(self) -> dict[str, str]:
        own = {
            "HOME": self.home,
            "IPYTHONDIR": self.home / "ipython",
            "JUPYTER_CONFIG_DIR": self.home / "config",
            "JUPYTER_DATA_DIR": self.home / "data",
            "JUPYTER_RUNTIME_DIR": self.home / "runtime",
            "XDG_STATE_HOME": self.home / "state",
            "JUPYTERHUB_API_TOKEN": f"token-of-{self.port}",
        }
        ours = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "XDG"))}
        return {**ours, **{name: str(value) for name, value in own.items()}, **self.environ}

    def _answers(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            raise AssertionError(self.log.read_text())
        try:
            return self.ask("GET", "api/status") is not None
        except httpx.HTTPError:
            return False

    def ask(self, method: str, path: str, body: object = None) -> Any:
        url = f"http://127.0.0.1:{self.port}/{path}"
        answer = httpx.request(
            method,
            url,
            headers={"Authorization": f"token {TOKEN}"},
            json=body,
            timeout=_PATIENCE_S,
            trust_env=False,
            verify=trusted_at(url),
        )
        answer.raise_for_status()
        return answer.json() if answer.content else {}

    def open_notebook(self, name: str) -> dict[str, Any]:
        (self.work / name).write_text(
            json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
        )
        body = {"path": name, "name": name, "type": "notebook", "kernel": {"name": "python3"}}
        opened: dict[str, Any] = self.ask("POST", "api/sessions", body)
        return opened

    def page(self, kernel_id: str, session: str | None = None) -> Page:
        made = Page(f"ws://127.0.0.1:{self.port}/api/kernels/{kernel_id}", TOKEN, session)
        self.pages.append(made)
        return made

    def hang_up(self) -> None:
        for page in self.pages:
            page.socket.shutdown()
        self.pages.clear()

    def greeting(self, kind: str) -> dict[str, Any]:
        """The message of this kind that every page is greeted with."""
        line = websocket.create_connection(
            f"ws://127.0.0.1:{self.port}/gpucommons/ws?token={TOKEN}", timeout=_PATIENCE_S
        )
        try:
            while True:
                message: dict[str, Any] = json.loads(line.recv())
                if message["type"] == kind:
                    return message
        finally:
            line.close()

    def stop(self, number: int = signal.SIGTERM) -> float:
        """Stop it; how long that took."""
        assert self.process is not None
        begun = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(timeout=_PATIENCE_S)
        return time.monotonic() - begun


Start = Callable[..., KernelServer]
