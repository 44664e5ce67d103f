"""Hibernation of one server's kernels, from its start to its stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from jupyter_client.provisioning.factory import KernelProvisionerFactory

from gpucommons.labextension.clock import wall_clock_ms
from gpucommons.labextension.hibernation.ability import Machine, holds_unsaved_gpu, this_machine
from gpucommons.labextension.hibernation.after_wake import Acquaintance
from gpucommons.labextension.hibernation.describing import hibernatable
from gpucommons.labextension.hibernation.keeper import (
    OPEN_PATIENCE_S,
    Keeper,
    has_kernels,
    server_folder,
    set_keeper,
)
from gpucommons.labextension.hibernation.keeping_limits import limits_of
from gpucommons.labextension.hibernation.kept_kernels_file import KeptKernel, kernels_folder
from gpucommons.labextension.hibernation.other_servers import remove_old
from gpucommons.labextension.hibernation.provisioner import NAME
from gpucommons.labextension.hibernation.records import Record
from gpucommons.labextension.hibernation.saving import (
    SAVE_S,
    keep_notes,
    save_all,
    save_none,
    say_lost,
)
from gpucommons.labextension.hibernation.waking import wake_all, watch

log = logging.getLogger("gpucommons.labextension")

_ORDINARY = "local-provisioner"
SWITCHED_OFF = "An admin has switched off that kernels are kept."


class Hibernation:
    """Keeps a server's kernels; made by :meth:`begin`."""

    def __init__(
        self,
        server: Any,
        keeper: Keeper,
        factory: Any,
        *,
        may_hold_gpu: Callable[[], bool] = lambda: True,
    ) -> None:
        self._server = server
        self._may_hold_gpu = may_hold_gpu
        self.keeper = keeper
        #: Called once all kernels that come back are started.
        self.when_started: Callable[[], None] = lambda: None
        self._factory = factory
        self._woken: list[tuple[Acquaintance, Record]] | None = None
        self._stop: asyncio.Task[tuple[KeptKernel, ...]] | None = None

    @classmethod
    def begin(
        cls,
        server: Any,
        *,
        environ: Mapping[str, str],
        server_name: str,
        find_machine: Callable[[Mapping[str, str], Path], Machine] = this_machine,
    ) -> Self | None:
        """Have Jupyter start kernels through us; None where that is not ours to do."""
        allowed, limits = limits_of(environ)
        factory = KernelProvisionerFactory.instance(parent=server)
        # Who chose another way to start kernels has a reason for it.
        if factory.default_provisioner_name != _ORDINARY:
            return None
        base = kernels_folder(environ)
        folder = server_folder(base, server_name, server.root_dir)
        machine = find_machine(environ, base)
        if not (allowed and machine.has_criu) and not has_kernels(folder):
            return None
        if NAME not in factory.provisioners:
            log.warning(
                "kernels are not kept: install GPU Commons anew, its provisioner is missing"
            )
            return None
        keeper = Keeper.open(
            folder,
            limits=limits,
            make_tree=machine.make_tree,
            hindrance=_asked(machine.why_not if allowed else lambda: SWITCHED_OFF),
            patience_s=OPEN_PATIENCE_S,
        )
        if keeper is None:
            log.warning("kernels are not kept: another server of this folder keeps its own")
            return None
        keeper.is_switched_off = not allowed
        keeper.node = environ.get("GPUCOMMONS_NODE", "")
        set_keeper(server.kernel_manager, keeper)
        factory.default_provisioner_name = NAME
        return cls(server, keeper, factory, may_hold_gpu=machine.may_hold_gpu)

    async def wake(self) -> None:
        """Bring back what is kept; once, whoever asks first."""
        if self._woken is None:
            self._woken = []
            self._woken = await wake_all(self._server, self.keeper)
            self.when_started()

    async def keeps_all(self) -> bool:
        """Whether a stop now would save every kernel, as far as a GPU has a word in it."""
        kernels = [
            self._server.kernel_manager.get_kernel(each) for each in hibernatable(self._server)
        ]
        trees = [kernel.provisioner for kernel in kernels]
        parks = all(each.tree.driver is not None for each in trees)
        pids = [each.pid for each in trees]

        def holds() -> bool:
            return self._may_hold_gpu() and holds_unsaved_gpu(pids, parks=parks)

        return not await asyncio.to_thread(holds)

    async def run(self, told: Callable[[tuple[KeptKernel, ...]], Awaitable[None]]) -> None:
        """While the server runs; once all kernels are awake or begin anew, what is still kept is told."""
        await asyncio.gather(
            asyncio.to_thread(remove_old, self.keeper),
            keep_notes(self._server, self.keeper),
            self._see_through(told),
        )

    async def _see_through(self, told: Callable[[tuple[KeptKernel, ...]], Awaitable[None]]) -> None:
        await self.wake()
        await asyncio.gather(*(self._watch(*each) for each in self._woken or ()))
        await told(self.keeper.write_kept())

    async def _watch(self, kernel: Acquaintance, record: Record) -> None:
        try:
            await watch(self._server, self.keeper, kernel, record)
        except Exception:
            log.exception("what became of kernel %s is not known", kernel.kernel_id)
        finally:
            # One that began anew, or told nothing, is not waited for.
            if self.keeper.listener is not None:
                self.keeper.listener.catch_up(kernel.kernel_id)

    async def stop(
        self, *, keeps_nothing: bool = False, within_s: float = SAVE_S
    ) -> tuple[KeptKernel, ...]:
        """Save all kernels, or none; what is kept. A second order to stop waits for the first."""
        if self._stop is None:
            self._stop = asyncio.create_task(self._save(keeps_nothing, within_s))
        return await asyncio.shield(self._stop)

    async def _save(self, keeps_nothing: bool, within_s: float) -> tuple[KeptKernel, ...]:
        begun_ms = wall_clock_ms()
        try:
            if keeps_nothing:
                return save_none(self._server, self.keeper)
            return await save_all(self._server, self.keeper, within_s)
        except Exception as error:
            log.exception("kernels are not kept")
            say_lost(self._server, self.keeper, error, since_ms=begun_ms)
            return ()
        finally:
            self._factory.default_provisioner_name = _ORDINARY
            self.keeper.close()


def _asked(why_not: Callable[[], str | None]) -> Future[str | None]:
    """Asked beside the server's start, which does not wait for the answer."""
    asker = ThreadPoolExecutor(1, thread_name_prefix="hibernation-self-test")
    answer = asker.submit(why_not)
    asker.shutdown(wait=False)
    return answer
