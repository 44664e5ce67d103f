"""What a server takes a woken kernel for, whose shell channel is silent while a cell runs; how soon its sockets try again."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zmq
import zmq.asyncio
from jupyter_client.ioloop import AsyncIOLoopKernelManager
from jupyter_client.session import DELIM, Session

from gpucommons.labextension import kernel_words
from gpucommons.labextension.hibernation import after_wake, saving
from gpucommons.labextension.hibernation.after_wake import Acquaintance
from gpucommons.labextension.hibernation.waking import try_often
from gpucommons.labextension.kernel_words import MARK, Said
from tests.labextension.hibernation.server_state import record_of


class Channel:
    def __init__(self, asked: asyncio.Queue[dict[str, Any]], session: Session) -> None:
        self._asked, self._session = asked, session

    def send_multipart(self, parts: list[bytes], **_: object) -> None:
        _, message = self._session.feed_identities(parts)
        self._asked.put_nowait(self._session.deserialize(message))

    def on_recv(self, hear: Callable[[list[bytes]], None]) -> None:
        self.hear = hear

    def close(self) -> None: ...


class Kernel:
    """One that answers when the test says so."""

    def __init__(self) -> None:
        self.kernel_id = "a"
        self.session = Session(key=b"secret")
        self.kernel_spec = SimpleNamespace(language="python")
        self.provisioner = SimpleNamespace(is_woken=True)
        self.execution_state = "starting"
        self.seen_by_jupyter: list[str] = []
        self.control: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.shell: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.renew_stream()
        self._hear: Callable[[list[bytes]], None] = self._record

    def renew_stream(self) -> None:
        """As Jupyter Server does where its ports changed."""
        self._activity_stream = SimpleNamespace(_recv_callback=self._record, on_recv=self._listen)
        self.listeners = 0

    def _record(self, parts: list[bytes]) -> None:
        _, message = self.session.feed_identities(parts)
        told = self.session.deserialize(message)
        self.seen_by_jupyter.append(told["content"]["execution_state"])

    def _listen(self, hear: Callable[[list[bytes]], None]) -> None:
        self.listeners += 1
        self._hear = self._activity_stream._recv_callback = hear

    def connect_control(self) -> Channel:
        self.last = Channel(self.control, Session(key=b"secret"))
        return self.last

    def answer(self, content: dict[str, Any], asked: dict[str, Any]) -> None:
        message = self.session.msg("execute_reply", content, parent=asked)
        self.last.hear(self.session.serialize(message))

    def connect_shell(self) -> Channel:
        return Channel(self.shell, Session(key=b"secret"))

    def say(self, state: str, parent: dict[str, Any]) -> None:
        message = self.session.msg("status", {"execution_state": state}, parent=parent)
        self._hear(self.session.serialize(message))


@pytest.mark.timeout(60)
async def test_a_woken_kernel_is_idle_only_once_its_shell_has_answered() -> None:
    kernel = Kernel()
    acquaintance = Acquaintance(kernel)
    acquaintance.renew({"JUPYTERHUB_API_TOKEN": "new"})
    renewal = await kernel.control.get()

    learning = asyncio.create_task(acquaintance.learn_state(patience_s=0.01))
    # The first question goes before the server hears anything.
    await kernel.control.get()
    again = await kernel.control.get()
    assert kernel.shell.empty()
    for asked in (renewal, again):
        kernel.say("busy", asked)
        kernel.say("idle", asked)
    await learning
    assert kernel.execution_state == "busy"

    cell = Session(key=b"secret").msg("execute_request", {})
    kernel.say("idle", cell)
    kernel.say("idle", after_wake.own_session(kernel).msg("execute_request", {}))
    assert kernel.execution_state == "busy"
    told = asyncio.Event()
    acquaintance.when_idle = told.set
    kernel.say("idle", await kernel.shell.get())
    assert kernel.execution_state == "idle"
    # Pages that were told that it is at work hear nothing of the answer itself.
    await told.wait()
    assert kernel.seen_by_jupyter == ["idle"], "of the cell alone"


def _interval(context: zmq.Context[zmq.Socket[bytes]]) -> int:
    with context.socket(zmq.DEALER) as socket:
        return int(socket.getsockopt(zmq.RECONNECT_IVL))


def test_only_sockets_of_the_woken_kernel_try_again_soon() -> None:
    for kind in (zmq.Context, zmq.asyncio.Context):
        with kind() as shared:
            usual = _interval(shared)
            woken = SimpleNamespace(context=shared)
            try_often(woken)
            assert isinstance(woken.context, kind)
            assert _interval(woken.context) < usual
            assert _interval(shared) == usual
            assert woken.context.underlying == shared.underlying


#: Says in a file how many lines it has printed.
_PRINTS = """
import os, pathlib, time
n = 0
while not os.path.exists("enough"):
    print(n, flush=True)
    n += 1
    pathlib.Path("next").write_text(str(n))
    os.replace("next", "printed")
    time.sleep(0.002)
pathlib.Path("ended").touch()
"""


class _Listener:
    """A server's ear: what cells print, in order, and the marks between."""

    def __init__(self, kernel: AsyncIOLoopKernelManager) -> None:
        self.lines: list[int] = []
        self.texts: list[str] = []
        self.complaints = ""
        self.marks: set[str] = set()
        self.asked_by: set[str] = set()
        #: The newest message of the cell, by its request; of the server before, as it was written down.
        self.newest: dict[str, str | None] = {}
        self.known: dict[str, str | None] = {}
        self.stream: Any = kernel.connect_iopub()
        self.stream.on_recv(self._hear)

    def _hear(self, parts: list[bytes]) -> None:
        header, parent, _metadata, content = map(json.loads, parts[parts.index(DELIM) + 2 :][:4])
        self.asked_by.add(parent.get("session", ""))
        if header["msg_type"] == MARK:
            self.marks.add(content["mark"])
        elif content.get("name") == "stdout":
            self.newest[parent.get("msg_id", "")] = header["msg_id"]
            self.texts.append(content["text"])
            self.lines += map(int, content["text"].split())
        elif content.get("name") == "stderr":
            self.complaints += content["text"]

    def listens(self, _kernel_id: str) -> bool:
        return True

    def has_heard(self, _kernel_id: str, mark: str) -> bool:
        return mark in self.marks

    def knows(self, _kernel_id: str) -> dict[str, str | None]:
        return self.known

    def catch_up(self, _kernel_id: str, said: Sequence[Said] = ()) -> None:
        texts = [one.content["text"] for one in said if one.content.get("name") == "stdout"]
        self.lines += map(int, "".join(texts).split())


def _without_gap(lines: list[int]) -> list[int]:
    """From the first on that was heard: who comes while a cell prints has missed what was before."""
    return list(range(lines[0], lines[-1] + 1))


async def _until(look: Callable[[], bool]) -> None:
    while True:
        if look():
            return
        await asyncio.sleep(0.01)


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[Any]:
    """A real kernel as a server holds it."""
    kernel: Any = AsyncIOLoopKernelManager()
    await kernel.start_kernel(cwd=str(tmp_path))
    kernel._activity_stream = kernel.connect_iopub()
    kernel._activity_stream.on_recv(lambda _parts: None)
    yield kernel
    kernel._activity_stream.close()
    await kernel.shutdown_kernel(now=True)


@pytest.fixture
def printing(real: Any) -> Iterator[Any]:
    """At a cell that prints all the time."""
    shell = real.connect_shell()
    shell.on_recv(lambda _parts: None)
    real.session.send(shell, "execute_request", {"code": _PRINTS, "silent": False})
    yield real
    shell.close()


@pytest.fixture
def listener(real: Any) -> Iterator[_Listener]:
    heard = _Listener(real)
    yield heard
    heard.stream.close()


@pytest.fixture
def printed(tmp_path: Path) -> Callable[[], int]:
    """How many lines the cell has printed."""

    def look() -> int:
        text = (tmp_path / "printed").read_text() if (tmp_path / "printed").exists() else ""
        return int(text or 0)

    return look


@pytest.mark.timeout(120)
async def test_a_kernel_keeps_its_words_to_itself_until_they_are_heard_again(
    printing: Any, tmp_path: Path, printed: Callable[[], int]
) -> None:
    before = _Listener(printing)
    await _until(lambda: len(before.lines) > 10)

    stopping = Acquaintance(printing)
    await stopping.fall_silent(before, 60)

    heard = printed()
    await _until(lambda: printed() > heard + 100)
    # One may be printed and not yet counted.
    assert before.lines[-1] <= heard
    # Its server is gone, and another one comes.
    before.stream.close()
    after = _Listener(printing)
    await Acquaintance(printing).speak(after, 60)
    await _until(lambda: len(after.lines) > 200)
    (tmp_path / "enough").touch()
    await _until(lambda: (before.lines + after.lines)[-1] == printed() - 1)
    after.stream.close()

    told = before.lines + after.lines
    assert told == _without_gap(told)
    # Its end would be taken for that of the cell.
    assert stopping._session.session in before.asked_by - after.asked_by


@pytest.mark.timeout(120)
async def test_a_kernel_whose_server_is_killed_keeps_its_words_until_the_next_one_hears_it(
    printing: Any, tmp_path: Path, printed: Callable[[], int]
) -> None:
    before = _Listener(printing)
    await _until(lambda: len(before.lines) > 10)
    Acquaintance(printing).keep_words_when_alone()
    await _until(lambda: len(before.marks) == 1)
    # This much was written down; what is heard from here on is lost with the server.
    written, known = list(before.lines), dict(before.newest)
    await _until(lambda: len(before.lines) > len(written) + 100)
    # For whoever comes from here on: what a slow reader has not taken is dropped.
    Acquaintance(printing)._run("get_ipython().kernel.iopub_thread.socket.sndhwm = 5")
    heard = printed()
    for stream in (printing._activity_stream, before.stream):
        stream.close()
    await _until(lambda: printed() > heard + 1000)
    (tmp_path / "enough").touch()
    await _until((tmp_path / "ended").exists)
    after = _Listener(printing)
    after.known, printing._activity_stream = known, printing.connect_iopub()
    printing._activity_stream.on_recv(lambda _parts: None)
    await Acquaintance(printing).speak(after, 60)
    await _until(lambda: bool(after.lines) and after.lines[-1] == printed() - 1)
    after.stream.close()

    assert written + after.lines == _without_gap(written + after.lines)


#: The thread that says what cells print is late: what it says takes along the news of who comes and goes, and
#: leaves them unread, as in a kernel that has just been woken on a busy machine.
_LATE = """
import os, pathlib, time, zmq
def late():
    pathlib.Path("late").touch()
    while not os.path.exists("back"):
        if thread.socket.get(zmq.EVENTS) & zmq.POLLIN:
            pathlib.Path("gone").touch()
        session.send(thread.socket, "stream", {"name": "stdout", "text": ""})
        time.sleep(0.01)
thread, session = get_ipython().kernel.iopub_thread, get_ipython().kernel.session
thread.schedule(late)
"""


@pytest.mark.timeout(60)
async def test_that_nobody_heard_a_kernel_once_is_old_news_when_somebody_hears_it_again(
    real: Any, tmp_path: Path, printed: Callable[[], int]
) -> None:
    before = _Listener(real)
    Acquaintance(real).keep_words_when_alone()
    await _until(lambda: len(before.marks) == 1)
    shell = real.connect_shell()
    shell.on_recv(lambda _parts: None)
    real.session.send(shell, "execute_request", {"code": _LATE + _PRINTS, "silent": False})
    await _until((tmp_path / "late").exists)
    for stream in (real._activity_stream, before.stream):
        stream.close()
    await _until((tmp_path / "gone").exists)
    now = _Listener(real)
    await _until(lambda: "" in now.texts)
    (tmp_path / "back").touch()
    await _until(lambda: len(now.lines) > 10)

    # A page comes beside it.
    page = _Listener(real)
    heard = printed()
    await _until(lambda: printed() > heard + 100)
    (tmp_path / "enough").touch()
    await _until(lambda: now.lines[-1] == printed() - 1)

    assert now.lines == _without_gap(now.lines)
    for stream in (now.stream, page.stream, shell):
        stream.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("bound", [{"_MOST_MESSAGES": 50}, {"_MOST_BYTES": 20_000}])
async def test_a_kernel_that_has_kept_too_much_says_it_unasked(
    printing: Any, tmp_path: Path, bound: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in bound.items():
        monkeypatch.setattr(kernel_words, name, most)
    listener = _Listener(printing)
    await _until(lambda: len(listener.lines) > 10)

    await Acquaintance(printing).fall_silent(listener, 60)

    heard = len(listener.lines)
    await _until(lambda: len(listener.lines) > heard + 100)
    listener.stream.close()
    assert listener.lines == _without_gap(listener.lines)


#: Runs until it is told to end. A library shows at the end of each run what was drawn in it.
_DRAWS = """
import os, time
shown = []
get_ipython().events.register("post_execute", lambda: shown.append("all"))
open("drawing", "w").close()
while not os.path.exists("enough"):
    time.sleep(0.01)
print(len(shown))
"""


@pytest.mark.timeout(60)
async def test_what_a_library_does_after_each_cell_it_does_not_after_a_request_of_ours(
    real: Any, listener: _Listener, tmp_path: Path
) -> None:
    shell, answered = real.connect_shell(), asyncio.Event()
    shell.on_recv(lambda _parts: answered.set())
    real.session.send(shell, "execute_request", {"code": _DRAWS, "silent": False})
    await _until((tmp_path / "drawing").exists)

    stopping, starting = Acquaintance(real), Acquaintance(real)
    await stopping.fall_silent(listener, 60)
    starting.renew({})
    await starting.speak(listener, 60)
    await _until(lambda: len(listener.marks) == 3)
    (tmp_path / "enough").touch()
    await answered.wait()
    again = {"code": "print(len(shown))", "silent": False}
    real.session.send(shell, "execute_request", again)

    # At the end of the first cell, and never before.
    await _until(lambda: len(listener.lines) == 2)
    assert listener.lines == [0, 1]
    shell.close()


@pytest.mark.parametrize("defines", ["", "get_ipython = lambda: None"])
async def test_a_python_kernel_without_ipython_gets_its_new_environment(defines: str) -> None:
    kernel = Kernel()
    Acquaintance(kernel).renew({"JPY_API_TOKEN": "new"})
    code = (await kernel.control.get())["content"]["code"]

    text = f"import os\n{defines}\n{code}\nprint(os.environ['JPY_API_TOKEN'])"
    env = {**os.environ, "JPY_API_TOKEN": "old"}
    command = [sys.executable, "-c", text]
    run = await asyncio.to_thread(subprocess.run, command, env=env, capture_output=True)

    assert (run.stdout, run.stderr) == (b"new\n", b"")


@pytest.mark.timeout(60)
async def test_each_process_is_asked_once_and_no_restart_adds_one_who_hears_all_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel, present = Kernel(), ["a"]
    kernel.execution_state = "idle"
    monkeypatch.setattr(saving, "NOTE_EVERY_S", 0)
    monkeypatch.setattr(saving, "hibernatable", lambda _: tuple(present))
    monkeypatch.setattr(saving, "describe", lambda _server, kernel_id, **_: record_of(kernel_id))
    monkeypatch.setattr(saving, "_tell_limits", lambda *_: rounds.append(len(present)))
    monkeypatch.setattr(saving, "_LIMITS_EVERY", 1)
    rounds: list[int] = []
    server: Any = SimpleNamespace(kernel_manager=SimpleNamespace(get_kernel=lambda _: kernel))
    keeper: Any = SimpleNamespace(
        limits=SimpleNamespace(days=1), node="n", note=lambda _record: None
    )

    async def asked_as(pid: int) -> None:
        kernel.provisioner.pid = pid
        asked = await kernel.control.get()
        for state in ("busy", "idle"):
            kernel.say(state, asked)

    kernel.provisioner.pid = 1
    noting = asyncio.create_task(saving.keep_notes(server, keeper))
    for pid in (1, 2, 3):
        await asked_as(pid)
    assert (kernel.listeners, kernel.seen_by_jupyter) == (1, [])
    # It listens at other ports: nobody hears it there yet.
    kernel.renew_stream()
    await asked_as(4)
    assert (kernel.listeners, kernel.seen_by_jupyter) == (1, [])
    # Nothing is kept of one that has gone, whatever process comes under its id.
    present.clear()
    await _until(lambda: rounds[-1] == 0)
    present.append("a")
    await asked_as(4)
    noting.cancel()


def test_who_asked_with_a_key_of_before_is_not_asked_for() -> None:
    kernel = Kernel()
    before = after_wake.acquainted(kernel)
    assert after_wake.acquainted(kernel) is before
    kernel.session.key = b"another"
    assert after_wake.acquainted(kernel) is not before


async def test_a_kernel_that_nobody_listens_to_is_not_asked_to_be_silent() -> None:
    kernel = Kernel()
    deaf = SimpleNamespace(listens=lambda _kernel_id: False, has_heard=lambda *_: False)

    await Acquaintance(kernel).fall_silent(deaf)

    assert kernel.control.empty()


@pytest.mark.timeout(60)
async def test_a_kernel_that_never_fell_silent_has_nothing_to_say(
    real: Any, listener: _Listener
) -> None:
    """As one whose server was killed: it saved itself, and nobody had asked it to be silent."""
    await Acquaintance(real).speak(listener, 60)

    # One mark says that it is heard, the other that it has obeyed.
    await _until(lambda: len(listener.marks) == 2)
    assert "Traceback" not in listener.complaints


#: As in a kernel that is not ipykernel.
_NO_IPYKERNEL = "get_ipython().kernel.iopub_thread = None"


@pytest.mark.timeout(120)
async def test_a_kernel_that_cannot_keep_its_words_is_not_waited_for(
    real: Any, listener: _Listener
) -> None:
    shell, answered = real.connect_shell(), asyncio.Event()
    shell.on_recv(lambda _parts: answered.set())
    await Acquaintance(real).fall_silent(listener, 600)
    await Acquaintance(real).speak(listener, 600)
    # It is silent, it is heard, and it speaks: nobody waits for the last of these marks.
    await _until(lambda: len(listener.marks) == 3)
    heard = set(listener.marks)
    real.session.send(shell, "execute_request", {"code": _NO_IPYKERNEL, "silent": True})
    await answered.wait()

    await Acquaintance(real).fall_silent(listener, 600)
    await Acquaintance(real).speak(listener, 600)

    assert listener.marks == heard
    shell.close()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "content",
    [
        {"status": "error", "ename": "NameError", "evalue": "get_ipython", "traceback": []},
        {"status": "ok", "user_expressions": {}},
        {"status": "ok", "user_expressions": {"gpucommons": {"status": "error"}}},
    ],
)
async def test_a_python_kernel_of_another_kind_ends_the_wait_by_its_answer(
    content: dict[str, Any],
) -> None:
    kernel = Kernel()
    deaf = SimpleNamespace(listens=lambda _kernel_id: True, has_heard=lambda *_: False)

    waiting = asyncio.create_task(Acquaintance(kernel).fall_silent(deaf, 600))
    asked = await kernel.control.get()
    kernel.answer(content, asked)

    await waiting


async def test_one_that_can_is_waited_for_until_its_mark_is_heard() -> None:
    kernel, marks = Kernel(), set[str]()
    listener = SimpleNamespace(
        listens=lambda _kernel_id: True, has_heard=lambda _kernel_id, mark: mark in marks
    )
    able = {"status": "ok", "data": {"text/plain": "True"}, "metadata": {}}

    waiting = asyncio.create_task(Acquaintance(kernel).fall_silent(listener, 600))
    asked = await kernel.control.get()
    kernel.answer({"status": "ok", "user_expressions": {"gpucommons": able}}, asked)
    # It is asked again: its word may have been lost.
    again = await kernel.control.get()
    assert not waiting.done()
    [mark] = set(re.findall(r"[0-9a-f]{32}", again["content"]["code"]))
    marks.add(mark)

    await waiting
