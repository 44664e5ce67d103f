"""The agent's loop: a sample of every slice each second, and requests in between; one thread, one selector."""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gpucommons.gpu.agent.control.channels import ControlChannel, MetricsChannel, SliceChannel
from gpucommons.gpu.agent.control.metrics import metrics_text
from gpucommons.gpu.agent.control.requests import Requests, refusal
from gpucommons.gpu.agent.watch import Watch
from gpucommons.gpu.connections.accepting import Acceptor
from gpucommons.gpu.connections.unix_sockets import Peer, listen
from gpucommons.gpu.errors import GpuError
from gpucommons.gpu.slices.slices import SliceId

#: How often the driver is asked.
LOOK_EVERY_S = 1.0
#: The least time for requests between two looks.
_BREATH_S = 0.2
#: Room for a tab or two of every slice of a large node.
_MAX_PENDING_CONNECTIONS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsAccess:
    """The metrics port: everybody on the machine reaches it, so it asks for a token."""

    #: None = no port; the socket in the agent's folder is there in any case.
    port: int | None
    token: str = field(repr=False)


class AgentServer:
    """Serves a :class:`Watch` on the sockets of one folder."""

    def __init__(
        self,
        folder: Path,
        watch: Watch,
        requests: Requests,
        *,
        metrics: MetricsAccess | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._watch = watch
        self._requests = requests
        self._folders = requests.folders
        self._now_ms = now_ms
        self._selector = selectors.DefaultSelector()
        self._acceptor = Acceptor()
        self._slices: dict[SliceId, SliceChannel] = {}
        self._lent: dict[SliceId, frozenset[int]] = {}
        self._folders.keep_only(gpu_slice.slice_id for gpu_slice in watch.slices)
        self._sync_slices()
        self._control = ControlChannel(
            self._selector,
            self._acceptor,
            listen(folder / "control.sock", backlog=_MAX_PENDING_CONNECTIONS),
            self._answer,
        )
        #: The port that was bound, for a caller that asked for any.
        self.metrics_port: int | None = None
        self._metrics = [self._metrics_channel(listen(folder / "metrics.sock"), token=None)]
        if metrics is not None and metrics.port is not None:
            self._serve_port(metrics.port, metrics.token)

    def run(self, stop: socket.socket) -> None:
        """Serve until ``stop`` has something to read."""
        stopped = False

        def on_stop(_events: int) -> None:
            nonlocal stopped
            stopped = True

        self._selector.register(stop, selectors.EVENT_READ, on_stop)
        due_s = time.monotonic()
        while not stopped:
            wait_s = due_s - time.monotonic()
            if wait_s <= 0:
                self.look()
                # After a suspended machine one look is enough; and however slow the driver is,
                # whoever asks is heard between two looks.
                due_s = max(due_s + LOOK_EVERY_S, time.monotonic() + _BREATH_S)
                continue
            self.serve(wait_s)
        self._selector.unregister(stop)

    def serve(self, timeout_s: float) -> None:
        """Handle what is ready, waiting at most so long for it."""
        for key, events in self._selector.select(timeout_s):
            # A handler before this one may have ended this socket, and another taken its number.
            current = self._selector.get_map().get(key.fd)
            if current is not None and current.fileobj is key.fileobj:
                current.data(events)

    def look(self) -> None:
        """Take a sample of every slice and send it to whoever listens."""
        for slice_id, line in self._watch.look(now_ms=self._now_ms()).items():
            channel = self._slices.get(slice_id)
            if channel is not None:
                channel.send_all(line)
        for metrics in self._metrics:
            metrics.end_late(time.monotonic())

    def close(self) -> None:
        """Stop serving; the folders of open slices stay for the next run."""
        self._control.close()
        for metrics in self._metrics:
            metrics.close()
        for channel in self._slices.values():
            channel.close()
        self._acceptor.close()
        self._selector.close()

    def _answer(self, line: bytes) -> bytes:
        answer = self._requests.answer(line, now_ms=self._now_ms())
        try:
            # The socket named in an answer is there before the answer is.
            self._sync_slices()
        except OSError as error:
            message = f"The node agent could not make the slice's socket: {error}. Try again."
            return refusal(GpuError(message))
        return answer

    def _sync_slices(self) -> None:
        """Make the sockets those of the open slices."""
        wanted = {gpu_slice.slice_id for gpu_slice in self._watch.slices}
        for slice_id in self._slices.keys() - wanted:
            self._slices.pop(slice_id).close()
            self._lent.pop(slice_id, None)
            self._folders.remove(slice_id)
        for slice_id in wanted - self._slices.keys():
            self._folders.make(slice_id)
            self._slices[slice_id] = SliceChannel(
                self._selector,
                self._acceptor,
                listen(
                    self._folders.socket_of(slice_id),
                    mode=self._folders.socket_mode,
                    backlog=_MAX_PENDING_CONNECTIONS,
                ),
                partial(self._watch.history, slice_id),
                partial(self._may_see, slice_id),
            )
        for slice_id in wanted:
            self._lend(slice_id)

    def _lend(self, slice_id: SliceId) -> None:
        """Where the agent is root, let the user of the slice connect to its socket."""
        uids = self._watch.uids(slice_id) - {0}
        if os.geteuid() != 0 or self._lent.get(slice_id) == uids or len(uids) != 1:
            return
        if self._folders.in_pods:
            return
        self._lent[slice_id] = uids
        path = self._folders.socket_of(slice_id)
        # The folder stays root's: a user who could write to it could swap what root opens.
        os.chown(path, next(iter(uids)), -1)
        path.parent.chmod(0o711)

    def _may_see(self, slice_id: SliceId, who: Peer) -> bool:
        """Its users and admins, but no process that belongs to another slice.

        In pods an account says nothing: there the pod decides, and on the node only root asks.
        """
        if self._folders.in_pods:
            if self._watch.is_in_a_pod(who.pid):
                return self._watch.slice_of(who.pid) == slice_id
            return who.uid in {0, os.geteuid()}
        if who.uid not in self._watch.uids(slice_id) | {0, os.geteuid()}:
            return False
        return self._watch.slice_of(who.pid) in (None, slice_id)

    def _serve_port(self, port: int, token: str) -> None:
        listener = socket.create_server(("127.0.0.1", port))
        listener.setblocking(False)
        self.metrics_port = listener.getsockname()[1]
        self._metrics.append(self._metrics_channel(listener, token=token))

    def _metrics_channel(self, listener: socket.socket, *, token: str | None) -> MetricsChannel:
        return MetricsChannel(
            self._selector,
            self._acceptor,
            listener,
            lambda: metrics_text(self._watch.device_usage(), self._watch.usage()),
            token,
        )
