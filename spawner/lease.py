"""A spawner's hold on its slice, apart from how the server is run.

The mixin takes a lease before the server starts, hands the slice to it, and lets go when the server
is gone, whichever way it went. It is written against ``Spawner`` alone, so a local spawner and one
for Kubernetes share it. A start without a GPU never talks to the scheduler.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from jupyterhub.spawner import Spawner
from pydantic import BaseModel, ValidationError
from traitlets import Instance, Unicode, default

from gpucommons.gpu.providers import Injection
from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler.client import AsyncSchedulerClient, calls
from gpucommons.scheduler.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    SchedulerError,
    SliceClearing,
    Unavailable,
)
from gpucommons.scheduler.models import (
    LeaseRequest,
    LeaseView,
    OfferList,
    SliceView,
    StartedReport,
)
from gpucommons.spawner.form.answers import NotebookOptions
from gpucommons.spawner.form.form_mixin import StartOptions
from gpucommons.spawner.form.refusal import refusal
from gpucommons.spawner.hub_pages.addresses import pages_address
from gpucommons.spawner.server_environment import Attachment, environment_of
from gpucommons.spawner.server_gone import say_goodbye

#: A scheduler that restarts is back within three seconds; a start waits that long for it.
RETRY_DELAYS_S = (0.3, 0.7, 2.0)
#: The last slice of a server that is started again is read as empty within a second or two.
CLEARING_DELAYS_S = (0.2, 0.5, 1.0, 2.0, 4.0)
#: A stop waits no longer for the scheduler; the news is delivered in the background.
_GOODBYE_WAIT_S = 5.0
#: What a spawner without any news of its own says.
_SAYS_NOTHING = "Spawning server..."

R = TypeVar("R", bound=BaseModel)


class LeaseMixin(StartOptions, Spawner):  # type: ignore[misc] # jupyterhub has no types
    """Leases for any spawner: put it before the spawner class it extends."""

    @default("http_timeout")
    def _default_http_timeout(self) -> int:
        # Where many start at once, a server takes longer than JupyterHub's 30 s to load its packages.
        return 120

    scheduler_token = Unicode(
        help="The token of the hub's service `gpucommons-spawner`. Never logged."
    ).tag(config=True)
    notebook_scheduler_url = Unicode(
        help="Address of the scheduler's API as notebooks reach it; default: `scheduler_url`."
    ).tag(config=True)
    agent_dir = Unicode(
        help="Folder of the node agent as notebooks see it: it holds the socket of each slice."
    ).tag(config=True)
    _lease: LeaseView | None = None
    #: What the slice's node made of it, for this start.
    _prepared: Injection | None = None
    _goodbye: asyncio.Task[None] | None = None
    _starting = False
    #: Set once it is known where the server starts; several pages may wait for it.
    _placed = Instance(asyncio.Event, ())

    @default("notebook_scheduler_url")
    def _default_notebook_scheduler_url(self) -> str:
        return str(self.scheduler_url)

    @default("ticket_url")
    def _default_ticket_url(self) -> str:
        return f"{pages_address(self.user)}ticket"

    async def load_user_options(self) -> None:
        """Validate the options; nothing is taken yet."""
        if hasattr(super(), "load_user_options"):
            await super().load_user_options()
        self.notebook_options()

    # --- start and stop -----------------------------------------------------------------------

    async def start(self) -> Any:
        """Take a slice, start the server on it, and give the slice back if that fails."""
        self._starting = True
        running = False
        try:
            options = self.notebook_options()
            ours_s = await self._timed(self._take(options)) if options.wants_gpu else 0.0
            self._remember()
            ours_s += await self._timed(self._prepare())
            self._placed.set()
            where = await super().start()
            self._remember()
            ours_s += await self._timed(self._report_started())
            running = True
        finally:
            try:
                # Also on cancellation, which is how the hub ends a start that takes too long.
                if not running:
                    await self._undo_start()
            finally:
                self._starting = False
        self.log.info("gpucommons: our part of the spawn took %.3f s", ours_s)
        return where

    async def _prepare(self) -> None:
        """Let the slice be made; where its limit is not in force, nothing starts."""
        held = self.held_slice
        self._prepared = None
        if held is not None:
            self._prepared = await self.prepare_slice(held)

    async def prepare_slice(self, held: SliceView) -> Injection | None:
        """Put the slice's limit in force, on nodes where the spawner does that itself.

        Refuse the start where that fails. None: whoever runs the server does it.
        """
        return None

    async def _undo_start(self) -> None:
        try:
            if self.root_pid():
                await asyncio.shield(super().stop(now=True))
        finally:
            self._let_go("failed")

    async def _timed(self, part: Awaitable[None]) -> float:
        began = time.perf_counter()
        await part
        return time.perf_counter() - began

    async def stop(self, now: bool = False) -> None:
        """Stop the server, then tell the scheduler that its slice is free."""
        await super().stop(now)
        self._let_go("stopped")
        if self._goodbye is not None:
            await asyncio.wait({self._goodbye}, timeout=_GOODBYE_WAIT_S)

    async def poll(self) -> int | None:
        """None while the server runs; a server that is gone has let go of its slice."""
        status: int | None = await super().poll()
        if self._starting:
            return status
        if status is not None:
            self._let_go("stopped")
        elif self._lease is not None and self._lease.state == "granted" and self.is_up():
            # The hub ended in the middle of this start, before the scheduler heard of it.
            await self._confirm()
        return status

    def is_up(self) -> bool:
        """Whether a server that is not gone has got so far that its processes run."""
        return True

    async def _confirm(self) -> None:
        try:
            await self._tell_started()
        except (Conflict, NotFound) as error:
            # Its grant ended meanwhile: somebody else may have the slice by now.
            self.log.warning("gpucommons: stopping %s: %s", self._log_name, error)
            await self.stop(now=True)
        except SchedulerError as error:
            # Nobody said that the grant has ended: the next poll asks again.
            self.log.warning("gpucommons: %s is not confirmed yet: %s", self._log_name, error)

    def stop_seconds(self) -> int:
        """From the word to stop until the server is killed; 0 = not known."""
        return 0

    def root_pid(self) -> int | None:
        """The root of the server's process tree on this machine, if it is on this machine."""
        return None

    # --- what survives the hub ----------------------------------------------------------------

    def _remember(self) -> None:
        """Keep the lease before anything runs on it, then what does: the hub keeps both too late."""
        if self._lease is not None and self.orm_spawner is not None:
            self.orm_spawner.state = self.get_state()
            self.db.commit()

    def get_state(self) -> dict[str, Any]:
        """Keep the lease with the server, so that a restarted hub still knows it."""
        state: dict[str, Any] = super().get_state()
        if self._lease is not None:
            state["gpucommons_lease"] = self._lease.model_dump(mode="json")
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Take the lease up again after a restart of the hub."""
        super().load_state(state)
        if "gpucommons_lease" in state:
            self._lease = LeaseView.model_validate(state["gpucommons_lease"])

    def clear_state(self) -> None:
        """The server is gone: so is its lease."""
        super().clear_state()
        self._placed.clear()
        if not self._starting:
            self._let_go("stopped")

    # --- what the server and its user see -----------------------------------------------------

    def get_env(self) -> dict[str, str]:
        """The server's environment; GPU variables are always set, to nothing without a slice."""
        env: dict[str, str] = super().get_env()
        return self.gpu_env(env)

    def gpu_env(self, base: Mapping[str, str]) -> dict[str, str]:
        """These variables with ours."""
        attachment = Attachment(
            scheduler_url=self.notebook_scheduler_url,
            agent_dir=self.agent_dir,
            shared_account=self.shared_account,
            prepared=self._prepared,
            stop_seconds=self.stop_seconds(),
            kernels_kept_days=self.notebook_options().kernels_kept_days,
            environment_name=self.environment_name(),
        )
        return environment_of(self._lease, attachment, base)

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """Say in words what happens, before whatever the spawner itself says."""
        options = self.notebook_options()
        if options.wants_gpu:
            yield {"progress": 10, "message": f"Asking for {options.asked}"}
        await self._placed.wait()
        yield {"progress": 50, "message": self._placed_text()}
        async for event in super().progress():
            # The screen shows the last event: JupyterHub's own "Spawning server..." says less.
            if event.get("message") != _SAYS_NOTHING:
                yield event

    def _placed_text(self) -> str:
        held = self.held_slice
        if held is None:
            return "Without a GPU, starting"
        size = f"{format_milli_gpu(held.milli_gpu)} of {held.gpu_kind}"
        simulated = ", simulated" if held.simulated else ""
        return f"Placed on {held.node} ({size}{simulated}), starting"

    @property
    def held_slice(self) -> SliceView | None:
        """The slice of this server, if it holds one."""
        return self._lease.slice if self._lease else None

    # --- the scheduler ------------------------------------------------------------------------

    def _scheduler(self) -> AsyncSchedulerClient:
        return AsyncSchedulerClient(self.scheduler_url, token=self.scheduler_token or None)

    async def _send(self, call: calls.Call[R]) -> R:
        """Send a call; a scheduler that is just restarting is waited for."""
        async with self._scheduler() as scheduler:
            for delay_s in RETRY_DELAYS_S:
                try:
                    return await scheduler.send(call)
                except Unavailable:
                    await asyncio.sleep(delay_s)
            return await scheduler.send(call)

    async def _take(self, options: NotebookOptions) -> None:
        if not self.scheduler_url:
            message = "This hub has no GPU scheduler: take CPU, or ask your admin."
            raise refusal(message, reason="no_scheduler", status=503)
        with _refusals():
            self._lease = await self._acquire(self._request(options))

    async def take_ticket(self, chosen: NotebookOptions) -> LeaseView:
        """Wait in line for what a start would take."""
        with _refusals():
            call = calls.wait_in_line(self._request(chosen), key=uuid.uuid4().hex)
            return await self._send(call)

    def _request(self, options: NotebookOptions) -> LeaseRequest:
        return LeaseRequest(
            server_name=self.name,
            user=self.user.name,
            team=options.team,
            pool=options.pool,
            milli_gpu=options.milli_gpu,
            gpu_memory_mib=options.gpu_memory_mib or None,
            environment=options.environment,
            on_idle=options.on_idle,
            kernels_kept_days=options.kernels_kept_days,
        )

    async def _acquire(self, request: LeaseRequest) -> LeaseView:
        """Take a slice; a restart waits a moment until its last slice is seen empty."""
        for delay_s in CLEARING_DELAYS_S:
            try:
                # A new key each time: the answer to the old one stands.
                return await self._send(calls.acquire(request, key=uuid.uuid4().hex))
            except SliceClearing:
                await asyncio.sleep(delay_s)
        return await self._send(calls.acquire(request, key=uuid.uuid4().hex))

    async def _look_again(self, lease_id: str, held: SliceView) -> SliceView:
        """The slice of this start as it is now; a start whose grant has ended meanwhile is over."""
        try:
            found = await self._send(calls.lease(lease_id))
        except Unavailable:
            return held
        except SchedulerError as error:
            raise refusal(str(error), reason=error.code, status=503) from None
        if found.slice is None:
            message = f"The GPU was taken back before the server started: {found.ended_text}"
            raise refusal(message, reason="grant_ended", status=409)
        self._lease = found
        return found.slice

    async def _report_started(self) -> None:
        try:
            await self._tell_started()
        except SchedulerError as error:
            message = f"The server started, but its GPU could not be confirmed: {error}"
            raise refusal(message, reason=error.code, status=503) from None

    async def _tell_started(self) -> None:
        if self._lease is not None:
            report = StartedReport(pid=self.root_pid())
            self._lease = await self._send(calls.started(self._lease.id, report))

    def _let_go(self, why: str) -> None:
        """End the lease, once, in the background."""
        lease, self._lease = self._lease, None
        if lease is not None:
            self._goodbye = say_goodbye(self._scheduler, lease.id, why=why, log=self.log)

    async def offers(self) -> OfferList:
        """What the user of this server may start right now."""
        async with self._scheduler() as scheduler:
            return await scheduler.send(calls.offers(user=self.user.name, server_name=self.name))


@contextmanager
def _refusals() -> Iterator[None]:
    """What the scheduler refuses is a start refused, with its sentence."""
    try:
        yield
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        message = f"No GPU can be asked for under this name: {why}."
        raise refusal(message, reason="bad_name", status=400) from None
    except (BadRequest, Conflict, Forbidden, NotFound) as error:
        raise refusal(str(error), reason=error.code, status=error.status) from None
    except SchedulerError as error:
        message = f"{error} A notebook without a GPU starts all the same: take CPU."
        raise refusal(message, reason=error.code, status=503) from None
