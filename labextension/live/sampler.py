"""The slice's live usage: read once per server from the node agent's socket, whatever the tabs."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from pathlib import Path
from typing import Any

from gpucommons.gpu.connections import unix_sockets
from gpucommons.labextension.live.fanout import Fanout

log = logging.getLogger("gpucommons.labextension")

#: Ten minutes at one sample per second, as the agent keeps them.
HISTORY = 600
#: The history comes as one line.
MAX_LINE_BYTES = 1 << 20
CONNECT_TIMEOUT_S = 2.0
FIRST_PAUSE_S, LAST_PAUSE_S = 0.5, 10.0


class Sampler:
    """Follows the socket, keeps the history, tells the tabs; connects again for ever."""

    def __init__(self, socket_path: str, fanout: Fanout) -> None:
        self._path = Path(socket_path) if socket_path else None
        self._fanout = fanout
        self._history: deque[dict[str, Any]] = deque(maxlen=HISTORY)
        #: ``ok``; ``no-gpu``: this server has no slice; ``no-data``: it has, but nobody can tell.
        self.state = "no-data" if socket_path else "no-gpu"

    def message(self) -> dict[str, Any]:
        """Everything there is, for a tab that opens."""
        return {"type": "usage", "state": self.state, "samples": list(self._history)}

    def mean_percent(self, since_ms: int) -> int | None:
        """How much the slice was used since then; None where nobody could tell."""
        known = [
            percent
            for sample in self._history
            if sample["at_ms"] > since_ms and (percent := sample.get("compute_percent")) is not None
        ]
        return round(sum(known) / len(known)) if known and self.state == "ok" else None

    async def run(self) -> None:
        """Until cancelled."""
        if self._path is None:
            return
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await self._follow(self._path)
                pause_s = FIRST_PAUSE_S
            except (OSError, ValueError, TypeError) as error:
                # A line longer than allowed raises ValueError, too: not our agent then.
                log.debug("no usage from %s: %s", self._path, error)
                pause_s = min(LAST_PAUSE_S, pause_s * 2)
            self._take([], state="no-data")
            await asyncio.sleep(pause_s)

    async def _follow(self, path: Path) -> None:
        connection = await asyncio.to_thread(
            unix_sockets.connect, path, timeout_s=CONNECT_TIMEOUT_S
        )
        connection.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=MAX_LINE_BYTES)
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if "history" in message:
                    self._history.clear()
                    self._take(message["history"])
                elif "sample" in message:
                    self._take([message["sample"]])
        finally:
            writer.close()

    def _take(self, samples: list[dict[str, Any]], state: str | None = None) -> None:
        if state is None:
            state = "ok" if not samples or _says_something(samples[-1]) else "no-data"
        changed, self.state = state != self.state, state
        self._history.extend(samples)
        if samples or changed:
            self._fanout.send({"type": "usage", "state": state, "samples": samples})


def _says_something(sample: dict[str, Any]) -> bool:
    """A driver that can tell neither number leaves no data, not zeros."""
    return not (sample.get("compute_percent") is None and sample.get("memory_used_mib") is None)
