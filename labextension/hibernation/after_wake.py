"""What a woken kernel and its new server must learn of each other.

The kernel: its environment is the old server's, its debugger lost its line. What a library has read
before (a token, the devices that CUDA saw) cannot be reached by this.
The server: whether a cell runs. It hears a kernel only some time after the wake; what the kernel said
until then is lost. So it asks. Nothing of this counts as work: a kernel that took the end of our own
request for the end of its cell was called idle, and might have been culled.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from jupyter_client.session import DELIM, Session

#: Until it is heard, a kernel is asked this often, and so often.
_ASK_AGAIN_S, _ASK_TIMES = 0.5, 120
#: A kernel that does not answer for so long is at a cell.
_AT_WORK_S = 5.0

#: Of the server and its hub; all other variables stay as the kernel has them.
_PREFIXES = ("JUPYTERHUB_", "GPUCOMMONS_", "NVIDIA_", "CUDA_")
_NAMES = frozenset({"JPY_API_TOKEN", "HOSTNAME"})

_CODE = """
def _gpucommons_renew(new, prefixes, names):
    import os
    for name in [n for n in os.environ if n.startswith(prefixes) or n in names]:
        if name not in new:
            del os.environ[name]
    os.environ.update(new)
    kernel = get_ipython().kernel
    debugger = getattr(kernel, 'debugger', None)
    if debugger is None or not getattr(kernel, 'debugpy_initialized', debugger.debugpy_initialized):
        return
    nothing = {
        'isStarted': False, 'hashMethod': 'Murmur2', 'hashSeed': 0, 'tmpFilePrefix': '',
        'tmpFileSuffix': '.py', 'breakpoints': [], 'stoppedThreads': [], 'richRendering': False,
        'exceptionPaths': [], 'copyToGlobals': False,
    }
    async def answer(message):
        asks = message['command'] == 'debugInfo'
        return {
            'type': 'response', 'request_seq': message['seq'], 'command': message['command'],
            'success': asks, 'body': nothing if asks else {},
            'message': 'Restart the kernel to debug: its debugger ended when it was saved.',
        }
    kernel.do_debug_request = answer
_gpucommons_renew(%r, %r, %r)
del _gpucommons_renew
"""


def code(environ: Mapping[str, str]) -> str:
    """What the kernel runs: the variables of the new server instead of the old one's."""
    new = {
        name: value
        for name, value in environ.items()
        if name.startswith(_PREFIXES) or name in _NAMES
    }
    return _CODE % (new, _PREFIXES, _NAMES)


class Acquaintance:
    """Requests of ours to one woken kernel; Jupyter does not see their answers."""

    def __init__(self, kernel: Any) -> None:
        self.kernel_id: str = kernel.kernel_id
        self._kernel = kernel
        self._session = Session(config=kernel.session.config, key=kernel.session.key)
        self._question: str | None = None
        self._is_heard, self._is_idle = asyncio.Event(), asyncio.Event()
        stream = kernel._activity_stream
        self._record = stream._recv_callback
        stream.on_recv(self._hear)

    def _hear(self, parts: list[bytes]) -> None:
        message = parts[parts.index(DELIM) + 1 :]
        _, header, parent, *_ = message
        if json.loads(header).get("msg_type") == "iopub_welcome":
            # It greets whoever begins to listen.
            self._is_heard.set()
        elif json.loads(parent).get("session") != self._session.session:
            self._record(parts)
        else:
            self._is_heard.set()
            self._take(self._session.deserialize(message))

    def _take(self, told: dict[str, Any]) -> None:
        is_idle = told["content"].get("execution_state") == "idle"
        if is_idle and told["parent_header"]["msg_id"] == self._question:
            # Statuses of cells come in one order with this one: whatever ran before has ended.
            self._kernel.execution_state = "idle"
            self._is_idle.set()

    def renew(self, environ: Mapping[str, str]) -> None:
        """Give it this server's environment; nobody waits for the answer.

        On the control channel, which answers while a cell runs.
        """
        if (self._kernel.kernel_spec.language or "").lower() != "python":
            return
        channel = self._kernel.connect_control()
        channel.on_recv(lambda _answer: channel.close())
        content = {
            "code": code(environ),
            "silent": True,
            "store_history": False,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        self._session.send(channel, "execute_request", content)

    async def learn_state(self, patience_s: float = _AT_WORK_S) -> None:
        """Find out whether a cell runs: the shell channel answers only between cells."""
        await self._be_heard()
        channel = self._kernel.connect_shell()
        channel.on_recv(lambda _answer: channel.close())
        question = self._session.msg("kernel_info_request")
        self._question = question["header"]["msg_id"]
        self._session.send(channel, question)
        try:
            await asyncio.wait_for(self._is_idle.wait(), patience_s)
        except TimeoutError:
            # A kernel that was restarted meanwhile does not know the question.
            if self._kernel.provisioner.is_woken:
                self._kernel.execution_state = "busy"

    async def _be_heard(self) -> None:
        """Ask on the control channel until the server hears what the kernel says to all."""
        channel = self._kernel.connect_control()
        channel.on_recv(lambda _answer: None)
        try:
            for _ in range(_ASK_TIMES):
                self._session.send(channel, "kernel_info_request")
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._is_heard.wait(), _ASK_AGAIN_S)
                    return
        finally:
            channel.close()
