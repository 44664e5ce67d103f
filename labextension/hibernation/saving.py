"""When the server stops, its kernels are saved; while it runs, what they will need is noted.

Jupyter's way to end a kernel interrupts it first, so no provisioner could save it: the extension's
stop comes before, and takes what was saved out of Jupyter's hands.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import shutil
import time
from typing import Any

import psutil
import zmq

from gpucommons.gpu.hibernation.tree import Refused, Saved
from gpucommons.labextension.hibernation.after_wake import Acquaintance, acquainted
from gpucommons.labextension.hibernation.describing import describe, hibernatable
from gpucommons.labextension.hibernation.keeper import Keeper
from gpucommons.labextension.hibernation.keeping_limits import Candidate, refused
from gpucommons.labextension.hibernation.kept_kernels_file import KeptKernel
from gpucommons.labextension.hibernation.other_servers import kept_elsewhere_bytes
from gpucommons.labextension.hibernation.records import Record

log = logging.getLogger("gpucommons.labextension")

NOTE_EVERY_S = 2.0
CHOSEN = "Its server was stopped because it was idle, and nothing is kept then, as was chosen."
#: Who may be kept is looked at in every so many of these rounds: it asks for the memory of all.
_LIMITS_EVERY = 10
#: A kernel that takes longer ends as it always did; its tree ends the save by itself.
SAVE_S = 120.0
#: Of the time for saving, for who is late: CRIU lets go of its processes before others are killed for it.
_LET_GO_SHARE = 0.25


async def keep_notes(server: Any, keeper: Keeper) -> None:
    """For a server that is killed: its kernels save themselves then, and say nothing of sessions."""
    noted: dict[str, Record] = {}
    asked: dict[str, int | None] = {}
    for round_ in itertools.count():
        await asyncio.sleep(NOTE_EVERY_S)
        kernel_ids = hibernatable(server)
        is_new = not noted.keys() >= set(kernel_ids)
        for kernel_id in kernel_ids:
            try:
                record = _described(server, keeper, kernel_id)
                if not _says_the_same(record, noted.get(kernel_id)):
                    keeper.note(record)
                    noted[kernel_id] = record
                _have_words_kept(server.kernel_manager.get_kernel(kernel_id), asked)
            except Exception:
                log.exception("nothing is noted of kernel %s", kernel_id)
        for gone in asked.keys() - set(kernel_ids):
            del asked[gone]
        if is_new or round_ % _LIMITS_EVERY == 0:
            await asyncio.to_thread(_tell_limits, server, keeper, dict(noted), kernel_ids)


def _have_words_kept(kernel: Any, asked: dict[str, int | None]) -> None:
    """Each process once: what it prints between the end of its server and its own save is said later."""
    pid = kernel.provisioner.pid
    if asked.get(kernel.kernel_id) != pid and kernel.execution_state != "starting":
        asked[kernel.kernel_id] = pid
        acquainted(kernel).keep_words_when_alone()


def _tell_limits(
    server: Any, keeper: Keeper, noted: dict[str, Record], kernel_ids: list[str]
) -> None:
    """A kernel that saves itself asks nobody: it is told before whether it may."""
    try:
        records = {each: noted[each] for each in kernel_ids if each in noted}
        reasons = _refused(server, keeper, records)
        for kernel_id in records:
            keeper.tree(kernel_id).forbid_orphan(reasons.get(kernel_id))
    except Exception:
        log.exception("kernels are not told whether they may save themselves")


def _described(server: Any, keeper: Keeper, kernel_id: str, *, with_buffer: bool = False) -> Record:
    record = describe(server, kernel_id, with_buffer=with_buffer)
    return record.model_copy(update={"kept_days": keeper.limits.days, "node": keeper.node})


def _says_the_same(new: Record, old: Record | None) -> bool:
    return old is not None and new == old.model_copy(update={"noted_ms": new.noted_ms})


def saving_seconds(until_killed: int | None, others_s: float) -> float:
    """How long kernels may take to be saved: where they are killed with the server, variables of those
    that could not be saved are stored after it.
    """
    return SAVE_S if until_killed is None else max(1.0, until_killed - others_s)


async def save_all(server: Any, keeper: Keeper, within_s: float = SAVE_S) -> tuple[KeptKernel, ...]:
    """Save every kernel that can be saved; the others end in the ordinary way, and that is told."""
    until_s = time.monotonic() + within_s
    records = {
        each: _described(server, keeper, each, with_buffer=True) for each in hibernatable(server)
    }
    reasons = await asyncio.to_thread(_refused, server, keeper, records)
    await asyncio.gather(
        *(
            _save_or_say(server, keeper, record, reasons.get(id_), until_s)
            for id_, record in records.items()
        )
    )
    return keeper.write_kept()


def save_none(server: Any, keeper: Keeper) -> tuple[KeptKernel, ...]:
    """For who wants nothing kept of an idle notebook; its notebooks say why they begin anew."""
    for kernel_id in hibernatable(server):
        keeper.lose(describe(server, kernel_id), CHOSEN)
    return keeper.write_kept()


async def _save_or_say(
    server: Any, keeper: Keeper, record: Record, refusal: str | None, until_s: float
) -> None:
    """What goes wrong with one kernel is said of that one, and changes nothing for the others."""
    try:
        await _save(server, keeper, record, refusal, until_s)
    except Exception as error:
        log.exception("saving kernel %s went wrong", record.kernel_id)
        if not await asyncio.to_thread(keeper.has_image, record.kernel_id):
            keeper.lose(record, _went_wrong(error))


async def _fallen_silent(keeper: Keeper, kernel: Any) -> Acquaintance | None:
    """Else what it prints meanwhile is lost; it is saved in any case. None: it is not asked."""
    if keeper.listener is None:
        return None
    try:
        acquaintance = acquainted(kernel)
        await acquaintance.fall_silent(keeper.listener)
    except Exception:
        log.exception("kernel %s does not fall silent", kernel.kernel_id)
        return None
    return acquaintance


def _note_last_words(server: Any, keeper: Keeper, kernel_id: str) -> None:
    """What the kernel said between the first note and the moment in which it stood still."""
    try:
        buffer = server.kernel_manager._kernel_buffers.get(kernel_id)
        for stream in buffer["channels"].values() if buffer else ():
            stream.flush(zmq.POLLIN)
        keeper.note(_described(server, keeper, kernel_id, with_buffer=True))
    except Exception:
        log.exception("what kernel %s said last is not noted", kernel_id)


def say_lost(server: Any, keeper: Keeper, error: Exception, *, since_ms: int) -> None:
    """Where saving went wrong as a whole: what was said of a kernel since then stands."""
    said = {one.kernel_id for one in keeper.losses if one.at_ms >= since_ms}
    for kernel_id in hibernatable(server):
        try:
            if kernel_id not in said and not keeper.has_image(kernel_id):
                keeper.lose(describe(server, kernel_id), _went_wrong(error))
        except Exception:
            log.exception("it is not said that kernel %s is lost", kernel_id)


def _went_wrong(error: Exception) -> str:
    why = error.strerror if isinstance(error, OSError) else None
    return f"Saving it went wrong ({why or type(error).__name__})."


def _refused(server: Any, keeper: Keeper, records: dict[str, Record]) -> dict[str, str]:
    candidates = [
        Candidate(
            kernel_id=kernel_id,
            bytes=_memory_bytes(server.kernel_manager.get_kernel(kernel_id).provisioner.pid),
            last_activity=record.last_activity,
        )
        for kernel_id, record in records.items()
    ]
    return refused(
        candidates,
        keeper.limits,
        free_bytes=shutil.disk_usage(keeper.folder).free,
        elsewhere_bytes=kept_elsewhere_bytes(keeper) + keeper.waiting_bytes(),
    )


def _memory_bytes(pid: int) -> int:
    """Of the kernel and all below it; what they share counts more than once."""
    try:
        return sum(each.memory_info().rss for each in psutil.Process(pid).children(recursive=True))
    except psutil.Error:
        return 0


async def _save(
    server: Any, keeper: Keeper, record: Record, refusal: str | None, until_s: float
) -> None:
    kernels, kernel_id = server.kernel_manager, record.kernel_id
    kernel = kernels.get_kernel(kernel_id)
    begun = time.monotonic()
    kernel.stop_restarter()
    # Before the save: should this process be killed meanwhile, the image finds its record.
    keeper.note(record)
    outcome: Saved | Refused
    silent: Acquaintance | None = None
    if refusal is None:
        silent = await _fallen_silent(keeper, kernel)
        left_s = max(1.0, until_s - time.monotonic())
        let_go_s = left_s * _LET_GO_SHARE
        outcome = await asyncio.to_thread(
            kernel.provisioner.tree.save, left_s - let_go_s, let_go_s=let_go_s
        )
    else:
        outcome = Refused(because=refusal, alive=True)
    if isinstance(outcome, Refused):
        log.warning("kernel %s is not kept: %s", kernel_id, outcome.because)
        keeper.lose(record, outcome.because)
        if silent is not None and keeper.listener is not None:
            # It runs on for a moment, and whoever asks for its variables has to hear that it is idle.
            await silent.speak(keeper.listener, within_s=0)
        return
    log.info(
        "kernel %s is kept (%d MiB, %.2f s)",
        kernel_id,
        outcome.image_bytes >> 20,
        time.monotonic() - begun,
    )
    await kernel.provisioner.wait()
    _note_last_words(server, keeper, kernel_id)
    kernels.stop_watching_activity(kernel_id)
    kernels.stop_buffering(kernel_id)
    kernels.remove_kernel(kernel_id)
    kernel.cleanup_connection_file()
    kernel._close_control_socket()
