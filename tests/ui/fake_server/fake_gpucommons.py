"""A Jupyter Server extension that speaks the panel's protocol from a script.

The panel is judged alone: whatever the scheduler would have to be brought to do first, a test says
with one message. ``POST gpucommons/fake`` sends a message to every open page, ``GET`` answers what
the pages have asked for.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import scene
import scene_of_parents
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.utils import url_path_join
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

NEW = "0190f000-0000-7000-8000-000000000008"


def now_ms() -> int:
    return int(time.time() * 1000)


class Socket(WebSocketHandler, JupyterHandler):
    """One page's connection; it is greeted with the whole scene."""

    pages: ClassVar[set[Socket]] = set()
    #: Replaces the greeting, for pages that meet trouble from their first moment.
    greeting: ClassVar[list[dict[str, Any]] | None] = None

    #: Like a server that was stopped.
    deaf: ClassVar[bool] = False

    async def get(self, *args: Any, **kwargs: Any) -> None:
        if self.deaf:
            raise web.HTTPError(503)
        if self.current_user is None:
            raise web.HTTPError(403)
        await super().get(*args, **kwargs)

    def open(self) -> None:
        self.pages.add(self)
        self.greet()

    def greet(self) -> None:
        for message in self.greeting if self.greeting is not None else greeting():
            self.tell(message)

    def on_close(self) -> None:
        self.pages.discard(self)

    def on_message(self, text: str | bytes) -> None:
        message = json.loads(text)
        Asked.asked.append({"ws": message})
        if message["type"] != "follow":
            return
        job = {"job": message["job"]}
        self.tell({"type": "job", "job": scene.running(now_ms())})
        lines = {
            "attempt": 2,
            "rank": message["rank"] or 0,
            "lines": scene.log_lines(),
            "end": False,
        }
        self.tell({"type": "log", **job, **lines})
        curve = {"points": scene.curve(now_ms()), "source": "log"}
        self.tell({"type": "curve", **job, **curve})
        self.tell({"type": "use", **job, **scene.use(now_ms())})

    def tell(self, message: dict[str, Any]) -> None:
        # A browser that goes is known by its handshake before `on_close`.
        with suppress(WebSocketClosedError):
            self.write_message(json.dumps(message))


def greeting() -> list[dict[str, Any]]:
    return [
        scene.hello(now_ms()),
        {"type": "usage", "state": "ok", "samples": scene.history(now_ms())},
        {"type": "teams", "teams": scene.teams()},
        {"type": "jobs", "jobs": scene.jobs(now_ms())},
    ]


class Asked(APIHandler):
    """The test's end of the wire."""

    asked: ClassVar[list[dict[str, Any]]] = []
    schedules: ClassVar[scene_of_parents.Schedules] = scene_of_parents.Schedules()
    pipelines: ClassVar[scene_of_parents.Pipelines] = scene_of_parents.Pipelines()
    sweeps: ClassVar[scene_of_parents.Sweeps] = scene_of_parents.Sweeps()

    @web.authenticated
    def get(self) -> None:
        self.finish(json.dumps(self.asked))

    @web.authenticated
    def post(self) -> None:
        order = json.loads(self.request.body)
        if "greeting" in order:
            Socket.greeting = order["greeting"]
        if "sweep" in order:
            self.sweeps.kept = order["sweep"]
        Socket.deaf = order.get("deaf", False)
        if order.get("hang_up"):
            # A page whose goodbye is still under way hears nothing more.
            leaving, Socket.pages = Socket.pages, set()
            for page in leaving:
                page.close()
        if order.get("greet"):
            for page in Socket.pages:
                page.greet()
        for message in order.get("send", []):
            for page in Socket.pages:
                page.tell(message)
        self.finish("{}")


class Proxy(APIHandler):
    """The scheduler's answers."""

    @web.authenticated
    def get(self, path: str) -> None:
        self._answer("GET", path)

    @web.authenticated
    def post(self, path: str) -> None:
        self._answer("POST", path)

    def _answer(self, method: str, path: str) -> None:
        body = json.loads(self.request.body) if self.request.body else None
        key = self.request.headers.get("Idempotency-Key")
        Asked.asked.append({"method": method, "path": path, "body": body, "key": key})
        if path.startswith(("schedule", "pipeline", "sweep")):
            self._answer_of_parents(path, body)
        else:
            self._answer_of_jobs(method, path, body)

    def _answer_of_jobs(self, method: str, path: str, body: Any) -> None:
        match (method, path.split("/")):
            case "GET", ["pools" | "environments" | "profiles" as listed]:
                self.finish(scene.listed(now_ms())[listed])
            case "POST", ["quote"] if body["roles"][0]["milli_gpu"] == 8000:
                self.set_status(422)
                message = "8 GPUs on one node is more than any node has: ask for 4 or less."
                self.finish({"error": "Unplaceable", "message": message})
            case "POST", ["quote" | "advise" as asked]:
                self.finish(scene.QUOTE if asked == "quote" else scene.advice(now_ms()))
            case "GET", ["files"]:
                self.finish(scene.files(self.get_query_argument("path", "")))
            case "POST", ["submit-file"] | ["jobs"]:
                name = "resnet-3" if body.get("parent") else "train-1"
                new = scene.job(NEW, name, now_ms(), position=3, milli_gpu=2000)
                self.finish(new | {"request": body.get("request", body)})
            case "POST", ["leases", _, "keep" | "park" as verb]:
                self.finish(chosen(verb))
            case "POST", ["jobs", job, "pause" | "resize" | "again" as verb]:
                self.finish(steered(job, verb))
            case "GET", ["jobs", job]:
                view = scene.waiting if job == scene.WAITING else scene.running
                self.finish(view(now_ms()))
            case "GET", ["jobs", _, "curve"]:
                self.finish({"points": scene.curve(now_ms())})
            case _:
                self.set_status(404)
                self.finish({"error": "NotFound", "message": f"No such call: {method} {path}."})

    def _answer_of_parents(self, path: str, body: Any) -> None:
        if path == "schedule-times":
            words = [self.get_query_argument(name) for name in ("schedule", "time_zone")]
            status, answer = scene_of_parents.times(*words)
        else:
            known = (
                Asked.pipelines
                if path.startswith("pipeline")
                else Asked.sweeps
                if path.startswith("sweep")
                else Asked.schedules
            )
            status, answer = known.answer(path.split("/"), body)
        self.set_status(status)
        self.finish(answer)


def chosen(verb: str) -> dict[str, Any]:
    """What a lease is after an action of its user."""
    if verb == "park":
        return scene.lease(state="parking", idle=scene.idle(can_park=True))
    kept = scene.idle(keeps_left=1, kept_until_ms=now_ms() + 30 * scene.MINUTE)
    return scene.lease(idle=kept)


def steered(job: str, verb: str) -> dict[str, Any]:
    """What a job, or the one made of it, is after an action."""
    if verb == "pause":
        return scene.running(now_ms()) | {"state": "pausing"}
    if verb == "resize":
        sized = {"milli_gpu": 2000, "state": "starting", "position": None}
        return scene.waiting(now_ms()) | sized
    made = scene.request("digits", 1000) | {"resume_from": job}
    new = scene.job(NEW, "digits-8", now_ms(), submitted_ms=now_ms(), position=1)
    return new | {"request": made}


class Examples(APIHandler):
    """One example among the user's files."""

    @web.authenticated
    def post(self) -> None:
        folder = Path(self.settings["server_root_dir"]).expanduser() / "gpu-examples"
        folder.mkdir(exist_ok=True)
        (folder / "first_job.py").write_text("print('epoch 1')\n")
        self.finish({"folder": "gpu-examples", "first": "gpu-examples/first_job.py"})


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "fake_gpucommons"}]


def _load_jupyter_server_extension(app: Any) -> None:
    base = url_path_join(app.web_app.settings["base_url"], "gpucommons")
    handlers = [
        (url_path_join(base, "ws"), Socket),
        (url_path_join(base, "fake"), Asked),
        (url_path_join(base, "(files|advise|submit-file|schedule|sweep|pipeline)"), Proxy),
        (url_path_join(base, "examples"), Examples),
        (url_path_join(base, "api/(.+)"), Proxy),
    ]
    app.web_app.add_handlers(".*$", handlers)
