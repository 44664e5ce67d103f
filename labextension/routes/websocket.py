"""The one WebSocket of a tab: usage, lease, jobs, teams, events, and what it follows."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Annotated, Any, Literal

from jupyter_server.auth.decorator import authorized, ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from pydantic import Field, TypeAdapter, ValidationError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from gpucommons.labextension.live.fanout import Tab
from gpucommons.labextension.live.followed_job import Follow
from gpucommons.labextension.mlflow_runs import Tracking
from gpucommons.labextension.requests import sentence_of
from gpucommons.labextension.routes.handlers import Ours
from gpucommons.scheduler.languages.answers import reader_of, told_in
from gpucommons.scheduler.models import Model, Ref

#: Jobs that one tab may follow at a time; the oldest gives way.
MAX_FOLLOWED = 8
MAX_MESSAGE_BYTES = 4096
_LOG = '{"type": "log"'
#: Close code "try again later".
TRY_LATER = 1013
NOT_WRITTEN = "This tab could not be told something; it connects again."


class FollowMessage(Model):
    """The page looks at a job."""

    type: Literal["follow"]
    job: Ref
    #: None = all workers' logs as one.
    rank: Annotated[int, Field(strict=True, ge=0, le=1023)] | None = 0


class UnfollowMessage(Model):
    """The page looks away."""

    type: Literal["unfollow"]
    job: Ref


_MESSAGE: TypeAdapter[FollowMessage | UnfollowMessage] = TypeAdapter(
    FollowMessage | UnfollowMessage
)


class TabHandler(Ours, WebSocketMixin, WebSocketHandler, JupyterHandler):
    """One open tab."""

    @ws_authenticated
    @authorized
    async def get(self, *arguments: Any, **options: Any) -> None:
        """Open, for users whom the authorizer lets read."""
        self.tab = Tab()
        self.followed: dict[str, asyncio.Task[None]] = {}
        self.writer: asyncio.Task[None] | None = None
        await super().get(*arguments, **options)

    def open(self, *_arguments: str, **_options: str) -> None:
        """Greet with everything that is known."""
        super().open()
        #: A browser's socket sends no header of the page's.
        self.language = reader_of(self.get_query_argument("language", ""))
        self.parts.feed.greet(self.tab)
        self.tab.put(self.parts.sampler.message())
        if self.parts.hibernation is not None:
            self.tab.put(self.parts.hibernation.keeper.message())
        self.parts.fanout.add(self.tab, self.current_user.username)
        self.writer = asyncio.create_task(self._write())

    async def _write(self) -> None:
        """Hand on what waits, at the tab's own pace, until it is too slow, makes room, or cannot be told."""
        sending = asyncio.create_task(self._write_all())
        over = asyncio.create_task(self.tab.over.wait())
        try:
            await asyncio.wait((sending, over), return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                self.log.warning("a tab was closed: %s", self.tab.why)
                self.close(TRY_LATER, self.tab.why)
            elif (error := sending.exception()) is not None:
                # A socket that is open and says nothing looks like a quiet cluster.
                self.log.error("a tab was closed: its writer failed", exc_info=error)
                self.close(TRY_LATER, NOT_WRITTEN)
        finally:
            sending.cancel()
            over.cancel()

    async def _write_all(self) -> None:
        """Until the tab is gone."""
        with suppress(WebSocketClosedError):
            while True:
                await self._write_next()

    async def _write_next(self) -> None:
        text = await self.tab.next()
        # What a program printed is nobody's to translate.
        await self.write_message(text if text.startswith(_LOG) else told_in(self.language, text))

    def on_message(self, text: str | bytes) -> None:
        """Follow or unfollow."""
        try:
            if len(text) > MAX_MESSAGE_BYTES:
                self.tab.put({"type": "error", "message": "This message is too long."})
                return
            message = _MESSAGE.validate_json(text)
        except ValidationError as error:
            self.tab.put({"type": "error", "message": sentence_of(error)})
            return
        self._unfollow(message.job)
        if isinstance(message, FollowMessage):
            self._follow(message)

    def _follow(self, message: FollowMessage) -> None:
        scheduler = self.parts.scheduler
        if scheduler is None:
            self.tab.put({"type": "error", "message": "There is no GPU Commons scheduler here."})
            return
        while len(self.followed) >= MAX_FOLLOWED:
            self._unfollow(next(iter(self.followed)))
        follow = Follow(
            scheduler=scheduler,
            tab=self.tab,
            ref=message.job,
            rank=message.rank,
            tracking=Tracking(owner=self.parts.context.owner, environ=os.environ),
        )
        task = self.followed[message.job] = asyncio.create_task(follow.run())
        task.add_done_callback(lambda done: self._is_over(message.job, done))

    def _is_over(self, job: str, task: asyncio.Task[None]) -> None:
        """Of what is over nothing comes any more: it takes no place."""
        if self.followed.get(job) is task:
            del self.followed[job]
        if not task.cancelled() and task.exception() is not None:
            self.log.error("following %s failed", job, exc_info=task.exception())
            text = f"{job} is not followed any more: reload the page. The server's log says why."
            self.tab.put({"type": "error", "message": text})

    def _unfollow(self, job: str) -> None:
        task = self.followed.pop(job, None)
        if task is not None:
            task.cancel()

    def on_close(self) -> None:
        """Forget the tab."""
        super().on_close()
        self.parts.fanout.remove(self.tab)
        for job in list(self.followed):
            self._unfollow(job)
        if self.writer is not None:
            self.writer.cancel()
