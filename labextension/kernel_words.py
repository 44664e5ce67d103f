"""What a Python kernel is asked about its own words: to keep them, to say them, and what it said last.

ipykernel alone: what it sends goes through one method in one thread, which is replaced there. Whatever
that is given is kept, in its order. Read beside `hibernation/after_wake.py`, which asks.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

#: A message by which a listener knows that it has heard all before it.
MARK = "gpucommons_mark"
ANSWER = "gpucommons"
#: Of the thread by which ipykernel says what its cells print; what is no ipykernel has no such thread.
_OF_THREAD = ("_really_send", "schedule", "io_loop")
#: Whether it can be asked to keep its words. The answer of a kernel that can may come before its mark.
OBEYS = f"all(hasattr(get_ipython().kernel.iopub_thread, name) for name in {_OF_THREAD})"
#: No more is kept of one kernel than so many messages, and so many bytes.
_MOST_MESSAGES, _MOST_BYTES = 100_000, 64 * 1024**2
#: Of what it has said to somebody it remembers less: what a server writes every 15 s at the latest.
_LAST_MESSAGES, _LAST_BYTES, _LAST_S = 20_000, 16 * 1024**2, 60
#: Kept words are said all the same once there are too many of them, or nobody has asked for long. That
#: this order is done is said at once: the next server would take it for the end of a cell. Remembered
#: is what fits into JSON: a picture of a widget's own may be memory of the user's that changes. A socket
#: that sends takes along the news of who comes and goes, and nothing tells that they are to be read: so a
#: word looks for them first. Read late, the last listener's leaving may be older than the next one's coming.
_SILENCE = """
def _gpucommons_silence(order, mark, kind, names, most, most_bytes, last, longest_s=60, patience_ms=10_000):
    import base64, collections, json, os, time, zmq
    kernel = get_ipython().kernel
    thread = getattr(kernel, 'iopub_thread', None)
    if not all(hasattr(thread, name) for name in names):
        return
    parent, own = kernel.get_parent('control'), vars(thread)
    asks = parent['header']['session'].encode()
    process = os.getpid()
    def size_of(message):
        return sum(memoryview(part).nbytes for part in message)
    def is_answer(message):
        return asks in bytes(message[message.index(b'<IDS|MSG>') + 3])
    def speak(words):
        # None: it never fell silent, or has said its words already.
        if words is None or own.get('_gpucommons_kept') is not words:
            return
        send = own.pop('_gpucommons_says', None)
        del thread._gpucommons_kept, thread._really_send
        # None: an earlier release had it fall silent.
        if send is not None:
            thread._really_send = send
        with_patience(words)
    def with_patience(words):
        # More than a socket holds for whoever reads slowly: it would drop the rest without a word.
        for option, value in ((zmq.XPUB_NODROP, 1), (zmq.SNDTIMEO, patience_ms)):
            thread.socket.set(option, value)
        try:
            for given, options in words:
                try:
                    thread._really_send(*given, **options)
                except zmq.Again:
                    # Who does not read at all holds nobody up.
                    thread.socket.set(zmq.XPUB_NODROP, 0)
                    thread._really_send(*given, **options)
        finally:
            thread.socket.set(zmq.XPUB_NODROP, 0)
            thread.socket.set(zmq.SNDTIMEO, -1)
    def fall_silent():
        if '_gpucommons_kept' in own:
            return
        send = thread._really_send
        words, size = [], [0]
        thread._gpucommons_kept, thread._gpucommons_says = words, send
        def keep(*given, **options):
            if os.getpid() != process or is_answer(given[0]):
                return send(*given, **options)
            words.append((given, options))
            size[0] += size_of(given[0])
            if len(words) > most or size[0] > most_bytes:
                speak(words)
        thread._really_send = keep
        thread.io_loop.call_later(longest_s, speak, words)
    def is_unread(socket):
        return socket.get(zmq.EVENTS) & zmq.POLLIN
    def remember(stream):
        send = thread._really_send
        said, size = collections.deque(), [0]
        most_said, most_said_bytes, longest_said_s = last
        def say(*given, **options):
            if os.getpid() == process and is_unread(stream.socket):
                was_silent = '_gpucommons_kept' in own
                stream.flush(zmq.POLLIN)
                if '_gpucommons_kept' in own and not was_silent:
                    return thread._really_send(*given, **options)
            message = given[0][given[0].index(b'<IDS|MSG>') + 2:]
            if os.getpid() == process and len(message) == 4:
                now = time.monotonic()
                said.append((now, message))
                size[0] += size_of(message)
                while (len(said) > most_said or size[0] > most_said_bytes
                        or said[0][0] < now - longest_said_s):
                    size[0] -= size_of(said.popleft()[1])
            return send(*given, **options)
        def since(known):
            found = {request: [] for request in known}
            for _, message in list(said):
                header, of = (json.loads(bytes(part)) for part in message[:2])
                request = of.get('msg_id')
                if request in found and header['msg_id'] == known[request]:
                    found[request].clear()
                elif request in found:
                    found[request].append([bytes(part).decode('utf-8', 'replace') for part in message])
            return base64.b64encode(json.dumps(found).encode()).decode()
        thread._really_send, thread._gpucommons_since = say, since
    def look_for_listeners():
        stream = getattr(thread, '_xpub_stream', None)
        if stream is None or '_gpucommons_looks' in own:
            return
        thread._gpucommons_looks, hear = True, thread._handle_subscription
        def heard(frames):
            hear(frames)
            # The last who listened to all is gone, unless what is unread says that somebody has come.
            if any(bytes(frame) == b'\\0' for frame in frames) and not is_unread(stream.socket):
                fall_silent()
        stream.on_recv(heard)
        if '_gpucommons_kept' not in own:
            remember(stream)
    def obey():
        if order == 'silent':
            fall_silent()
        elif order == 'alone':
            look_for_listeners()
        elif order == 'speak':
            speak(own.get('_gpucommons_kept'))
        kernel.session.send(thread.socket, kind, {'mark': mark}, parent=parent)
    thread.schedule(obey)
_gpucommons_silence(%r, %r, %r, %r, %r, %r, %r)
del _gpucommons_silence
"""
_SINCE = "get_ipython().kernel.iopub_thread._gpucommons_since({!r})"


class Said(NamedTuple):
    """A message of a kernel's to all."""

    header: Mapping[str, Any]
    parent: Mapping[str, Any]
    metadata: Mapping[str, Any]
    content: Mapping[str, Any]


def told(order: str, mark: str) -> str:
    """What the kernel runs: to keep its words, to say them, or to send a mark alone."""
    last = (_LAST_MESSAGES, _LAST_BYTES, _LAST_S)
    return _SILENCE % (order, mark, MARK, _OF_THREAD, _MOST_MESSAGES, _MOST_BYTES, last)


def obeys(reply: Mapping[str, Any]) -> bool:
    """What was answered to :data:`OBEYS`."""
    return _answer(reply) == "True"


def said_since(known: Mapping[str, str | None]) -> str:
    """Asks what it said for these requests after these messages, as far as it remembers."""
    return _SINCE.format(dict(known))


def missed(reply: Mapping[str, Any]) -> list[Said]:
    """The answer; none of a kernel that remembers nothing. A kernel may answer anything."""
    try:
        found = json.loads(base64.b64decode(_answer(reply).strip("'")))
        said = [Said(*map(json.loads, one)) for of_run in found.values() for one in of_run]
    except (binascii.Error, ValueError, TypeError, AttributeError):
        return []
    return [one for one in said if all(isinstance(part, dict) for part in one)]


def _answer(reply: Mapping[str, Any]) -> str:
    answer = reply["content"].get("user_expressions", {}).get(ANSWER, {})
    return str(answer.get("data", {}).get("text/plain", ""))
