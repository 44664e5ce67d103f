"""Sockets of a woken kernel try again soon; those of the server's other kernels as ever."""

from __future__ import annotations

from types import SimpleNamespace

import zmq
import zmq.asyncio

from gpucommons.labextension.hibernation.waking import try_often


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
