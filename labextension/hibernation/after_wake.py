"""What a woken kernel and its new server must learn of each other.

The kernel: its environment is the old server's, its debugger lost its line. What a library has read
before (a token, the devices that CUDA saw) cannot be reached by this.
The server: whether a cell runs. It hears a kernel only some time after the wake; what the kernel said
until then is lost. So it asks. Nothing of this counts as work: a kernel that took the end of our own
request for the end of its cell was called idle, and might have been culled.

What a cell prints around a save would be lost twice: what is on its way when the kernel stands still,
and what it says awake before anybody hears it. So it is asked to keep its words to itself just before
it is saved, and to say them once it is heard again. A server that is killed asks for nothing: its kernels
were asked before to do so by themselves once nobody hears them, and to remember what they said last, as
such a server has not written down all that it heard (`labextension/kernel_words.py`).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol
from uuid import uuid4

from jupyter_client.session import DELIM, Session

from gpucommons.labextension.kernel_words import (
    ANSWER,
    OBEYS,
    Said,
    missed,
    obeys,
    said_since,
    told,
)

#: Of the names of our own sessions with kernels: what is done for them is no work of the user's.
OURS = "gpucommons-"
#: Until it is heard, a kernel is asked this often, and so often.
_ASK_AGAIN_S, _ASK_TIMES = 0.5, 120
#: A kernel that does not answer for so long is at a cell.
_AT_WORK_S = 5.0
#: A kernel that has not fallen silent by then is saved as it is.
SILENT_WITHIN_S = 2.0
#: So long after its wake it is not heard, and speaks all the same; how often it is asked, and looked at.
_HEARD_WITHIN_S, _MARK_AGAIN_S, _LOOK_S = 30.0, 0.25, 0.01

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
    try:
        kernel = get_ipython().kernel
    except (NameError, AttributeError):
        return
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


#: What libraries do at the end of a cell they do not do at the end of ours: matplotlib would show what
#: the cell that runs has drawn so far, and close it. A Python kernel without IPython has no such libraries.
_ASIDE = """
def _gpucommons_aside():
    import threading
    try:
        events = get_ipython().events
    except (NameError, AttributeError):
        return
    ours = threading.get_ident()
    trigger = events.trigger
    def others(event, *given, **options):
        if event == 'post_execute' and threading.get_ident() == ours:
            events.trigger = trigger
        else:
            trigger(event, *given, **options)
    events.trigger = others
_gpucommons_aside()
del _gpucommons_aside
"""


class Listener(Protocol):
    """Who keeps what cells print, whatever pages are open."""

    def listens(self, kernel_id: str) -> bool:
        """Whether it hears this kernel, once that can be heard."""

    def has_heard(self, kernel_id: str, mark: str) -> bool:
        """Whether it has heard this mark, and so all that was said before it."""

    def listen_anew(self, kernel_id: str) -> None:
        """It is at other ports."""

    def knows(self, kernel_id: str) -> Mapping[str, str | None]:
        """Of cells whose kernel may have said more than was written down: the last message that was."""

    def catch_up(self, kernel_id: str, said: Sequence[Said] = ()) -> None:
        """This is what was missed of them, and all that is told."""


def own_session(kernel: Any) -> Session:
    """For requests of ours to this kernel; pages hear nothing of their begin and end."""
    name = f"{OURS}{uuid4().hex}"
    return Session(config=kernel.session.config, key=kernel.session.key, session=name)


def code(environ: Mapping[str, str]) -> str:
    """What the kernel runs: the variables of the new server instead of the old one's."""
    new = {
        name: value
        for name, value in environ.items()
        if name.startswith(_PREFIXES) or name in _NAMES
    }
    return _CODE % (new, _PREFIXES, _NAMES)


def acquainted(kernel: Any) -> Acquaintance:
    """Who asks this kernel already, or somebody new.

    Each hears all that the kernel says for as long as that stream lives, and a restart keeps the stream:
    one for each process would make a chain that every message goes through.
    """
    hears = getattr(kernel._activity_stream._recv_callback, "__self__", None)
    if isinstance(hears, Acquaintance) and hears.speaks_to(kernel):
        return hears
    return Acquaintance(kernel)


class Acquaintance:
    """Requests of ours to one woken kernel; Jupyter does not see their answers."""

    def __init__(self, kernel: Any) -> None:
        self.kernel_id: str = kernel.kernel_id
        self._kernel = kernel
        self._session = own_session(kernel)
        self._question: str | None = None
        self._is_heard, self._is_idle = asyncio.Event(), asyncio.Event()
        #: Called where it has answered after it was taken for busy, as on a busy machine.
        self.when_idle: Callable[[], None] = lambda: None
        stream = kernel._activity_stream
        self._record = stream._recv_callback
        stream.on_recv(self._hear)

    def speaks_to(self, kernel: Any) -> bool:
        """Whether this kernel takes its requests: by other ports it has another key."""
        return kernel is self._kernel and kernel.session.key == self._session.key

    def _hear(self, parts: list[bytes]) -> None:
        message = parts[parts.index(DELIM) + 1 :]
        _, raw, parent, *_ = message
        header = json.loads(raw)
        # Of a silent cell's kernel nothing but this is heard.
        self._kernel.speaks_as = header.get("session")
        if header.get("msg_type") == "iopub_welcome":
            # It greets whoever begins to listen.
            self._is_heard.set()
            return
        asked_by = str(json.loads(parent).get("session"))
        if not asked_by.startswith(OURS):
            self._record(parts)
            return
        # Another of us may have asked it while it was woken a second time.
        self._is_heard.set()
        if asked_by == self._session.session:
            self._take(self._session.deserialize(message))

    def _take(self, told: dict[str, Any]) -> None:
        is_idle = told["content"].get("execution_state") == "idle"
        if is_idle and told["parent_header"]["msg_id"] == self._question:
            # Statuses of cells come in one order with this one: whatever ran before has ended.
            was_busy, self._kernel.execution_state = self._kernel.execution_state == "busy", "idle"
            self._is_idle.set()
            if was_busy:
                # Later, as it reads on in the stream whose message this is.
                asyncio.get_running_loop().call_soon(self.when_idle)

    def renew(self, environ: Mapping[str, str]) -> None:
        """Give it this server's environment; nobody waits for the answer.

        On the control channel, which answers while a cell runs.
        """
        self._run(code(environ))

    async def fall_silent(self, listener: Listener, within_s: float = SILENT_WITHIN_S) -> None:
        """Just before it is saved: it keeps its words, and what it has said before is heard."""
        if listener.listens(self.kernel_id):
            await self._order("silent", listener, within_s)

    def keep_words_when_alone(self) -> None:
        """Have it fall silent by itself once no server hears it any more, until it is told to speak."""
        self._run(told("alone", uuid4().hex))

    async def speak(self, listener: Listener | None, within_s: float = _HEARD_WITHIN_S) -> None:
        """Have a woken kernel say what it has kept, once that is heard."""
        if listener is not None and listener.listens(self.kernel_id):
            await self._order("mark", listener, within_s)
            await self._fill_in(listener, within_s)
        self._run(told("speak", uuid4().hex))

    async def _fill_in(self, listener: Listener, within_s: float) -> None:
        """What the server before had heard and not written down, if anything, comes before what is kept."""
        known = listener.knows(self.kernel_id)
        if not known or not self._is_python():
            return
        reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._run("", said_since(known), reply.set_result)
        with suppress(TimeoutError):
            listener.catch_up(self.kernel_id, missed(await asyncio.wait_for(reply, within_s)))

    async def _order(self, order: str, listener: Listener, within_s: float) -> None:
        if not self._is_python():
            return
        mark, end = uuid4().hex, time.monotonic() + within_s
        ask_at, cannot = 0.0, asyncio.Event()

        def answered(reply: dict[str, Any]) -> None:
            if not obeys(reply):
                cannot.set()

        while not listener.has_heard(self.kernel_id, mark) and time.monotonic() < end:
            if cannot.is_set():
                return
            if time.monotonic() >= ask_at:
                ask_at = time.monotonic() + _MARK_AGAIN_S
                self._run(told(order, mark), OBEYS, answered)
            await asyncio.sleep(_LOOK_S)

    def _is_python(self) -> bool:
        return (self._kernel.kernel_spec.language or "").lower() == "python"

    def _run(
        self,
        text: str,
        asks: str = "",
        answered: Callable[[dict[str, Any]], None] = lambda _reply: None,
    ) -> None:
        if not self._is_python():
            return
        channel = self._kernel.connect_control()

        def hear(parts: list[bytes]) -> None:
            channel.close()
            answered(self._session.deserialize(self._session.feed_identities(parts)[1]))

        channel.on_recv(hear)
        content = {
            "code": _ASIDE + text,
            "silent": True,
            "store_history": False,
            "user_expressions": {ANSWER: asks} if asks else {},
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
