"""At the start of a server its kernels come back, under their ids and in their sessions.

All of them are listed before the first request is answered: a page that finds its session missing
would drop it. A kernel that cannot be woken begins anew under the same id, and its notebook says so.
Where it is this machine that cannot now, and not the image that is of no use, the image stays: what
failed may be mended before the next start.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from datetime import datetime
from functools import partial
from typing import Any

import zmq
from jupyter_client.session import new_id_bytes
from jupyter_core.utils import ensure_async

from gpucommons.gpu.hibernation.process_image import hindrance, lacking_here
from gpucommons.gpu.hibernation.refusals import PORT_TAKEN
from gpucommons.gpu.hibernation.tree import HibernatableTree, Refused
from gpucommons.labextension.clock import wall_clock_ms
from gpucommons.labextension.hibernation.after_wake import Acquaintance
from gpucommons.labextension.hibernation.keeper import Keeper
from gpucommons.labextension.hibernation.provisioner import PORTS
from gpucommons.labextension.hibernation.records import Record

log = logging.getLogger("gpucommons.labextension")

#: Kernels of a server that was killed may be saving themselves still.
_SETTLE_S = 30.0
#: Longer than CRIU is given: a wake that is cut short would cost the image.
_WAKE_S = 660.0
#: Between two tries to reach a kernel that is being woken: what it says before it is heard is lost,
#: and Jupyter's usual tenth of a second was a line of a cell that prints ten.
_TRY_EVERY_MS = 5
#: Ports are chosen a moment before the wake, and somebody may be quicker: so often others are chosen.
_TRIES_ELSEWHERE = 3
_NOT_STARTED = "Its kernel could not be started again; the server's log says why."
_UNSAVED = "It ended with its server, and nothing of its memory was saved."


async def wake_all(server: Any, keeper: Keeper) -> list[tuple[Acquaintance, Record]]:
    """Start all kept kernels; how the wake of those that wake goes is told by :func:`watch`, with their records."""
    begun = time.monotonic()
    await asyncio.gather(*(_settle(keeper, each) for each in keeper.kernel_ids()))
    records = [found for each in keeper.kernel_ids() if (found := _due(keeper, each))]
    started = await asyncio.gather(*(_start(server, keeper, each) for each in records))
    back = sum(each.kernel_id in server.kernel_manager for each in records)
    if back:
        log.info("%d kernels come back (%.2f s)", back, time.monotonic() - begun)
    return [each for each in started if each is not None]


async def _settle(keeper: Keeper, kernel_id: str) -> None:
    """Only one process tree of a kernel may ever live."""
    if not await asyncio.to_thread(keeper.tree(kernel_id).settled, _SETTLE_S):
        log.error("kernel %s still lives or is being saved: it is left alone", kernel_id)


def _due(keeper: Keeper, kernel_id: str) -> Record | None:
    """The record of a kernel that is to come back; what is over or of no use is removed."""
    tree = keeper.tree(kernel_id)
    if tree.lives():
        return None
    record = keeper.record(kernel_id)
    because = None
    if record is None:
        because = "What its server had noted of it cannot be read."
    elif not tree.has_image():
        because = tree.why_unsaved() or _UNSAVED
    elif keeper.kept_until_ms(record) < wall_clock_ms():
        because = keeper.limits_for(record).over
    if because is None:
        return record
    log.warning("kernel %s does not come back: %s", kernel_id, because)
    keeper.say_lost(kernel_id, record, because)
    keeper.forget(kernel_id)
    return None


async def _start(server: Any, keeper: Keeper, record: Record) -> tuple[Acquaintance, Record] | None:
    """None: it begins anew, or not at all."""
    kernel_id = record.kernel_id
    of_machine, of_image = await asyncio.to_thread(_hindrances, keeper, kernel_id)
    because = await keeper.why_not() or of_machine or of_image
    if because is None:
        keeper.waking[kernel_id] = record
    elif of_image is None and not keeper.is_switched_off:
        log.warning("kernel %s is kept for a later start: %s", kernel_id, because)
        keeper.wait(record, because)
    else:
        log.warning("kernel %s begins anew: %s", kernel_id, because)
        keeper.lose(record, because)
        keeper.forget(kernel_id)
    try:
        await server.kernel_manager.start_kernel(
            kernel_id=kernel_id,
            kernel_name=record.kernel_name,
            cwd=record.cwd,
            env=_environment(server, record),
        )
    except Exception:
        log.exception("kernel %s does not come back", kernel_id)
        keeper.waking.pop(kernel_id, None)
        # One that waits is not lost: only what was to run in its place is not there.
        if kernel_id not in keeper.waiting:
            # As on a full disk: its image is whole, and the next start finds it.
            (keeper.wait if keeper.has_image(kernel_id) else keeper.lose)(record, _NOT_STARTED)
        return None
    acquaintance = _put_back(server, record) if because is None else None
    for row in record.sessions:
        await server.session_manager.save_session(**row.model_dump(), kernel_id=kernel_id)
    return None if acquaintance is None else (acquaintance, record)


def _hindrances(keeper: Keeper, kernel_id: str) -> tuple[str | None, str | None]:
    """Why this machine cannot wake it, where the one that saved it could; and why none can."""
    image = keeper.tree(kernel_id).image()
    if image is None:
        return None, "Its image cannot be read."
    of_machine = lacking_here(image)
    return of_machine, hindrance(image) if of_machine is None else None


def _environment(server: Any, record: Record) -> dict[str, str]:
    first = next(iter(record.sessions), None)
    environ: dict[str, str] = server.session_manager.get_kernel_env(
        (first.path if first else "") or "", first.name if first else None
    )
    return environ


def _put_back(server: Any, record: Record) -> Acquaintance:
    """What Jupyter keeps beside a kernel."""
    kernels = server.kernel_manager
    kernel = kernels.get_kernel(record.kernel_id)
    try_often(kernel)
    acquaintance = Acquaintance(kernel)
    if record.execution_state == "busy":
        # Its cell goes on; an answer to somebody else's question would make it look idle.
        kernel.execution_state = "busy"
    else:
        # Else every start of the server would begin the culler's clock anew.
        kernel.last_activity = datetime.fromisoformat(record.last_activity)
    if record.kernel_info is not None:
        # A busy kernel tells nothing of itself, and each page would wait a minute for that.
        known: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        known.set_result(record.kernel_info)
        kernel._kernel_info_future = known
    if record.session_key is not None and ":" in record.session_key:
        _buffer_again(kernels, kernel, record, record.session_key)
    return acquaintance


def try_often(kernel: Any) -> None:
    """Have sockets of this kernel, which listens anew, connect soon; those of others stay as they are.

    A context that stands for another one has options of its own.
    """
    kernel.context = type(kernel.context)(kernel.context)
    kernel.context.setsockopt(zmq.RECONNECT_IVL, _TRY_EVERY_MS)


def _buffer_again(kernels: Any, kernel: Any, record: Record, session_key: str) -> None:
    """Outputs wait for the page that had them last, until it is back."""
    identity = session_key.split(":", 1)[1].encode()
    channels = {}
    for name in ("iopub", "shell", "control", "stdin"):
        stream = getattr(kernel, f"connect_{name}")(identity=identity)
        stream.channel = name
        channels[name] = stream
    kernels.start_buffering(record.kernel_id, session_key, channels)
    waiting = kernels._kernel_buffers[record.kernel_id]["buffer"]
    waiting.extend(
        (message.channel, [bytes.fromhex(part) for part in message.parts])
        for message in record.buffer
    )


async def watch(server: Any, keeper: Keeper, acquaintance: Acquaintance, record: Record) -> None:
    """See a wake through: then the kernel is told of its new server, or begins anew.

    ``record`` is of the server that saved it: this one soon writes its own over it.
    """
    kernel_id = acquaintance.kernel_id
    kernel = server.kernel_manager.get_kernel(kernel_id)
    if not getattr(kernel.provisioner, "is_woken", False):
        return
    begun = time.monotonic()
    tree = kernel.provisioner.tree
    refused = await asyncio.to_thread(tree.awake, _WAKE_S)
    for _ in range(_TRIES_ELSEWHERE):
        if not await _is_whole(tree, refused):
            break
        acquaintance = await _wake_elsewhere(server, keeper, record)
        refused = await asyncio.to_thread(tree.awake, _WAKE_S)
    if refused is None:
        log.info("kernel %s is awake (%.2f s)", kernel_id, time.monotonic() - begun)
        acquaintance.renew(os.environ)
        await acquaintance.speak(keeper.listener)
        # Its user may have ended it meanwhile.
        if keeper.record(kernel_id) is not None:
            keeper.say_woken(record, await asyncio.to_thread(tree.why_parked))
        acquaintance.when_idle = partial(_tell_pages, server, kernel_id)
        await acquaintance.learn_state()
        _tell_pages(server, kernel_id)
        return
    log.warning("kernel %s begins anew: %s", kernel_id, refused.because)
    if keeper.record(kernel_id) is not None:
        leave = keeper.wait if await _is_whole(tree, refused) else keeper.lose
        leave(record, refused.because)
    kernel.stop_restarter()
    server.kernel_manager.stop_buffering(kernel_id)
    if hasattr(kernel, "_kernel_info_future"):
        del kernel._kernel_info_future
    kernel.execution_state = "starting"
    _change_connection(kernel)
    await ensure_async(server.kernel_manager.restart_kernel(kernel_id, now=True))
    _have_pages_connect_anew(server, kernel_id)


async def _is_whole(tree: HibernatableTree, refused: Refused | None) -> bool:
    """Whether a refused image can be woken: only a port was taken, which others are not."""
    if refused is None or refused.because != PORT_TAKEN:
        return False
    return await asyncio.to_thread(tree.keep_refused)


async def _wake_elsewhere(server: Any, keeper: Keeper, record: Record) -> Acquaintance:
    """Try it once more at other ports; whoever has connected to those before connects anew."""
    kernels, kernel_id = server.kernel_manager, record.kernel_id
    kernel = kernels.get_kernel(kernel_id)
    log.warning("kernel %s wakes at other ports: one was taken meanwhile", kernel_id)
    # It would have a fresh one in its place.
    kernel.stop_restarter()
    kernels.stop_buffering(kernel_id)
    keeper.waking[kernel_id] = kernel.provisioner.moved
    await ensure_async(kernel.restart_kernel(now=True))
    kernels.stop_watching_activity(kernel_id)
    kernels.start_watching_activity(kernel_id)
    kernels._kernel_ports[kernel_id] = kernel.ports
    acquaintance = _put_back(server, record)
    if keeper.listener is not None:
        keeper.listener.listen_anew(kernel_id)
    _have_pages_connect_anew(server, kernel_id)
    return acquaintance


def _tell_pages(server: Any, kernel_id: str) -> None:
    """That a cell of it runs; where another extension has connections of its own it is left to that."""
    say = getattr(server.kernel_websocket_connection_class, "say_to_pages", None)
    if say is not None:
        say(kernel_id)


def _change_connection(kernel: Any) -> None:
    """The old ports were seen by everybody on this machine: somebody else may listen there by now."""
    for name in PORTS:
        setattr(kernel, name, 0)
    kernel.provisioner.ports_cached = False
    kernel.session.key = new_id_bytes()
    kernel.cleanup_connection_file()
    kernel._connection_file_written = False


def _have_pages_connect_anew(server: Any, kernel_id: str) -> None:
    for page in list(getattr(server.kernel_websocket_connection_class, "_open_sockets", ())):
        if page.kernel_id == kernel_id:
            page.websocket_handler.close()
