"""An API server in memory, for whoever speaks through a ``Connection``: objects, patches, watches.

It knows no schemas, no defaults and no other admission than versions: tests on the real one see those.
"""

from __future__ import annotations

import copy
import json
import queue
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any

from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError

Document = dict[str, Any]


class Line:
    """A watch: what happens to objects below a path from now on."""

    def __init__(self, past: list[bytes]) -> None:
        self._events: queue.Queue[bytes | None] = queue.Queue()
        for one in past:
            self._events.put(one)

    def put(self, event: bytes) -> None:
        self._events.put(event)

    def __enter__(self) -> Iterator[bytes]:
        return iter(self._events.get, None)

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Nothing is held."""

    def close(self) -> None:
        self._events.put(None)


class FakeApiServer:
    """Stands in for :class:`Connection`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._version = 0
        #: By path of the object.
        self.objects: dict[str, Document] = {}
        self._lines: list[tuple[str, Line]] = []
        self._log: list[tuple[int, str, bytes]] = []
        #: Whether what nobody owns is gone at once, as pods whose containers take no time to end.
        self.collects = True
        #: Paths of objects that a webhook lets nobody change.
        self.closed: set[str] = set()
        #: How many changes it refused.
        self.refused = 0

    # --- reading -----------------------------------------------------------------------------

    def get(self, path: str, **_query: str | int) -> Document:
        with self._lock:
            if path in self.objects:
                return copy.deepcopy(self.objects[path])
            if path.rpartition("/")[2] in ("trainjobs", "pods", "nodes"):
                items = [one for place, one in self.objects.items() if _is_of(place, path)]
                found: Document = {
                    "items": items,
                    "metadata": {"resourceVersion": str(self._version)},
                }
                return copy.deepcopy(found)
        raise ApiError(404, "NotFound", f"{path} not found")

    def stream(self, path: str, *, idle_s: float, **query: str | int) -> Line:
        since = int(query["resourceVersion"])
        with self._lock:
            past = [line for at, place, line in self._log if at > since and _is_of(place, path)]
            line = Line(past)
            self._lines.append((path, line))
            return line

    def text(self, path: str, **_query: str | int) -> bytes:
        return b"epoch 1\n"

    # --- writing -----------------------------------------------------------------------------

    def post(self, path: str, body: Document) -> Document:
        with self._lock:
            made = copy.deepcopy(body)
            meta = made["metadata"]
            if "generateName" in meta:
                meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
            place = f"{path}/{meta['name']}"
            if place in self.objects:
                raise ApiError(409, "AlreadyExists", f"{place} exists")
            parts = path.split("/")
            if "namespaces" in parts:
                meta["namespace"] = parts[parts.index("namespaces") + 1]
            meta["uid"] = uuid.uuid4().hex
            return self._keep(place, made, "ADDED")

    def merge_patch(self, path: str, patch: Document) -> None:
        with self._lock:
            place = path.removesuffix("/status")
            if place in self.closed:
                self.refused += 1
                raise ApiError(403, "Forbidden", "admission webhook denied the request")
            found = self.get(place)
            asked, meta = patch.get("metadata") or {}, found["metadata"]
            for key in ("resourceVersion", "uid"):
                if asked.get(key, meta[key]) != meta[key]:
                    raise ApiError(409, "Conflict", "the object has been modified")
            after = _merged(found, patch)
            if after != found:
                self._keep(place, after, "MODIFIED")

    def json_patch(self, path: str, patch: list[Document]) -> None:
        with self._lock:
            found = self.get(path)
            for step in patch:
                _step(found, step)
            self._keep(path, found, "MODIFIED")

    def delete(self, path: str, body: Document | None = None) -> None:
        with self._lock:
            if path not in self.objects:
                raise ApiError(404, "NotFound", f"{path} not found")
            gone = self.objects.pop(path)
            self._tell(path, gone, "DELETED")
            # What nobody owns any more is collected.
            if not self.collects:
                return
            for place, one in list(self.objects.items()):
                owners = one["metadata"].get("ownerReferences") or ()
                if any(owner["uid"] == gone["metadata"]["uid"] for owner in owners):
                    self.delete(place)

    def _keep(self, place: str, body: Document, kind: str) -> Document:
        self.objects[place] = body
        self._tell(place, body, kind)
        return copy.deepcopy(body)

    def _tell(self, place: str, body: Document, kind: str) -> None:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        line = json.dumps({"type": kind, "object": body}).encode()
        self._log.append((self._version, place, line))
        for path, watch in self._lines:
            if _is_of(place, path):
                watch.put(line)

    def close(self) -> None:
        """End the watches."""
        for _, line in self._lines:
            line.close()


def _is_of(place: str, path: str) -> bool:
    """Whether an object is below a collection, of one namespace or of all."""
    folder, _, _ = place.rpartition("/")
    base, _, resource = path.rpartition("/")
    is_all = folder.startswith(f"{base}/namespaces/") and folder.endswith(f"/{resource}")
    return folder == path or is_all


def _merged(found: Any, patch: Any) -> Any:
    if not isinstance(patch, dict) or not isinstance(found, dict):
        return patch
    after = dict(found)
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = _merged(after.get(key, {}), value)
    return after


def _step(body: Any, step: Document) -> None:
    *parents, last = [
        one.replace("~1", "/").replace("~0", "~") for one in step["path"].split("/")[1:]
    ]
    with suppress(KeyError, IndexError):
        for one in parents:
            body = body[int(one)] if isinstance(body, list) else body[one]
        key: Any = int(last) if isinstance(body, list) else last
        if step["op"] == "test" and body[key] == step["value"]:
            return
        if step["op"] == "add":
            body[key] = step["value"]
            return
        if step["op"] == "remove":
            del body[key]
            return
    raise ApiError(422, "Invalid", f"{step['op']} {step['path']} fails")
