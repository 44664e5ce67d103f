"""Who calls a route, and how a route calls a use case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Request
from fastapi.security import APIKeyHeader
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from gpucommons.scheduler.api.authentication import Authenticator, Credentials, read_token
from gpucommons.scheduler.api.limits.concurrent_requests import OF_ONE, DearWork, Turns
from gpucommons.scheduler.api.limits.places import Places
from gpucommons.scheduler.api.limits.waiting import Waiting
from gpucommons.scheduler.errors import NotAuthenticated
from gpucommons.scheduler.principal import Identity, Principal, resolve
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.service import Pending, Service

R = TypeVar("R", bound=BaseModel)
T = TypeVar("T")

_READS = frozenset({"GET", "HEAD"})
#: Only for the OpenAPI document: the header is read by :func:`read_token`.
_scheme = APIKeyHeader(
    name="Authorization",
    scheme_name="token",
    description="`token <JupyterHub token>` or `Bearer <JupyterHub token>`",
    auto_error=False,
)

IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", max_length=200, pattern=r"^[\x21-\x7e]*$")
]


@dataclass(frozen=True, kw_only=True, slots=True)
class RouteDependencies:
    """What routes share."""

    service: Service
    authenticator: Authenticator
    waiting: Waiting
    turns: Turns = field(default_factory=lambda: Turns(of_one=OF_ONE))
    dear: DearWork = field(default_factory=DearWork)
    uploading: Places = field(default_factory=Places)


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """One authenticated request."""

    principal: Principal
    dependencies: RouteDependencies

    async def run(
        self, use_case: Callable[..., R | Pending[R]], *arguments: Any, **named: Any
    ) -> R:
        """Run a use case in a thread, and wait without one for what only a cycle can answer."""
        return await self._settled(await self.in_turn(use_case, *arguments, **named))

    async def in_turn(self, use_case: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Run a use case in a thread when this caller has one free, and give what it gives."""
        call = partial(use_case, self.dependencies.service, self.principal, *arguments, **named)
        if not self._takes_turns:
            return await run_in_threadpool(call)
        async with self.dependencies.turns.turn(self._name):
            return await run_in_threadpool(call)

    async def run_dear(
        self, use_case: Callable[..., R | Pending[R]], *arguments: Any, **named: Any
    ) -> R:
        """Run a use case that computes for long: few at a time, and one of each caller."""
        if not self._takes_turns:
            return await self.run(use_case, *arguments, **named)
        call = partial(use_case, self.dependencies.service, self.principal, *arguments, **named)
        return await self._settled(await self.dependencies.dear.run(call, whose=self._name))

    async def _settled(self, found: R | Pending[R]) -> R:
        if isinstance(found, Pending):
            return await self.dependencies.waiting.settle(
                found,
                whose=self._name,
                dearly=self._dearly if self._takes_turns else run_in_threadpool,
            )
        return found

    async def _dearly(self, work: Callable[[], T]) -> T:
        return await self.dependencies.dear.run(work, whose=self._name)

    @property
    def _takes_turns(self) -> bool:
        """Whoever asks for one person; the hub and its services ask for everybody."""
        return not authorization.sight.serves_notebooks(self.principal)

    @property
    def _name(self) -> str:
        return f"{self.principal.kind} {self.principal.name}"


async def _authenticate(
    request: Request, authorization: Annotated[str | None, Depends(_scheme)]
) -> Caller:
    dependencies: RouteDependencies = request.app.state.dependencies
    token = read_token(authorization)
    peer_uid = getattr(request.state, "peer_uid", None)
    teams = dependencies.service.loop.cluster.teams

    async def identify(*, fresh: bool) -> Identity:
        credentials = Credentials(token=token, peer_uid=peer_uid, fresh=fresh)
        identity = await dependencies.authenticator.identify(credentials)
        if identity is None:
            raise NotAuthenticated
        return identity

    principal = resolve(await identify(fresh=False), teams)
    if request.method not in _READS and (principal.admin or principal.leads):
        # Whoever may change others' things is looked up anew before doing so.
        principal = resolve(await identify(fresh=True), teams)
    return Caller(principal=principal, dependencies=dependencies)


AnyCaller = Annotated[Caller, Depends(_authenticate)]
