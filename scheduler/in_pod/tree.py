"""A job's processes in its pod: started so that they can be saved, saved when the pod ends, woken.

Where the pod's node cannot do it, or its image has no Python that could, the command runs as in any
other pod, and the scheduler is told why. What saves and wakes lies beside this file; it is
loaded only where it is needed, so that this runs in any image that has Python.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpucommons.scheduler.in_pod.worker import Api, Refused, Unreachable, say

#: Its value is a JSON object, see :class:`Tree`.
VARIABLE = "GPUCOMMONS_TREE"
#: With this the kubelet's record of the end begins where processes were to be saved.
IMAGE = "gpucommons image: "
#: Beside the notice, once it is on record what became of a wake: the pod counts as started then.
BEGUN = "begun"
#: What a tree that was saved ends with.
SAVED = 75
_OLDEST = (3, 11)
_WAKE_S, _START_S = 600.0, 120.0
#: What became of a start is waited for so long when it has ended already.
_AFTER_END_S = 10.0
#: So long a scheduler may take to say whether processes are saved; the grace of the pod runs.
_ASK_S = 2.0
#: So much longer an answer is waited for before the command is told to leave by itself.
_LATE_S = 0.5
#: Written to see how fast the volume is, and assumed until that is known.
_PROBE_MIB, _USUAL_MIB_PER_S = 16, 100
_MIB = 1 << 20
#: The scheduler's group hands images on and clears them away.
_SHARED = 0o2770


class Tree:
    """The processes of one attempt."""

    def __init__(self, told: Mapping[str, Any], api: Api, root: Path, begun: Path) -> None:
        self._told, self._api, self._root, self._begun = told, api, root, begun
        self._hindrance: str = told["hindrance"]
        self._not_woken = ""
        self._woken_from: int | None = None
        #: There is an image from which nothing has run yet.
        self._asleep = False
        self._tried = False
        self._not_saved = ""
        self._mib_per_s = _USUAL_MIB_PER_S
        self._image: Any = None
        #: An image was left behind at the end.
        self.is_kept = False

    # --- the start ---------------------------------------------------------------------------

    def start(self, command: Sequence[str], running: Any) -> None:
        """Begin the command, or what was saved of it, unless the pod was told to end before."""
        prefix = self._ready(command)
        while not (self._asleep and running.is_stopping()):
            running.begin(prefix if self._asleep else [*prefix, *command])
            refused = self._outcome(running) if prefix else None
            if refused is None:
                self._asleep = False
                break
            if running.is_stopping():
                break
            running.end()
            if self._asleep:
                self._asleep, self._not_woken = False, refused
                prefix = self._anew()
            else:
                self._hindrance, prefix = refused, ()
        if running.is_stopping():
            return
        threading.Thread(target=self._measure, daemon=True).start()
        if not self._told["promised"]:
            # Nobody waits for it.
            threading.Thread(target=self._tell, args=(running,), daemon=True).start()
            return
        self._report()
        self._begun.touch()
        threading.Thread(target=self._look, args=(running,), daemon=True).start()

    def _ready(self, command: Sequence[str]) -> Sequence[str]:
        promised = self._told["promised"]
        try:
            found = self._found(command)
        except (OSError, ValueError, KeyError) as error:
            self._hindrance, found = f"its processes cannot be prepared ({error})", None
        if found is None:
            self._not_woken = self._hindrance if promised else ""
            shutil.rmtree(self._root / "hibernation", ignore_errors=True)
            return ()
        number = found["woken_from"]
        self._asleep = number is not None
        self._woken_from = number
        if promised and number is None:
            self._not_woken = "it was not found as it was saved"
        return tuple(found["prefix"])

    def _found(self, command: Sequence[str]) -> Mapping[str, Any] | None:
        if not self._hindrance:
            self._hindrance = self._load()
        # What cannot be run is tried without a tree, and says itself why.
        if self._hindrance or shutil.which(command[0]) is None:
            return None
        found: Mapping[str, Any] = self._image.ready(
            (), self._told["number"], self._told["promised"]
        )
        self._share()
        return found

    def _load(self) -> str:
        """Why its processes can't be saved; empty where what does that is at hand."""
        if sys.version_info < _OLDEST:
            return "the Python of its image is older than 3.11"
        # Only here: it needs a newer Python than the rest.
        from gpucommons.gpu.hibernation.criu import find_criu  # noqa: PLC0415 - see above
        from gpucommons.scheduler.working_folder.own_image import OwnImage  # noqa: PLC0415 - see above

        criu = find_criu(os.environ)
        if criu is None:
            return "its node gave its pod no CRIU 4.2 or newer"
        self._image = OwnImage(run=self._root, criu=criu.command)
        return ""

    def _anew(self) -> Sequence[str]:
        try:
            found = self._image.anew(self._told["number"])
            self._share()
        except OSError as error:
            self._hindrance = f"its processes cannot be prepared ({error})"
            return ()
        return tuple(found["prefix"])

    def _share(self) -> None:
        folder = self._image.folder
        for one in (folder, folder / "tree", folder / "tree" / "image"):
            with suppress(FileNotFoundError):
                one.chmod(_SHARED)

    def _outcome(self, running: Any) -> str | None:
        """What became of a start: a refusal, or nothing."""
        seconds, heard = (_WAKE_S if self._asleep else _START_S), []

        def hear() -> None:
            heard.append(self._image.outcome(seconds).get("refused"))

        hearing = threading.Thread(target=hear, daemon=True)
        hearing.start()
        until_s = time.monotonic() + seconds
        while hearing.is_alive() and time.monotonic() < until_s:
            hearing.join(0.05)
            if running.has_ended():
                until_s = min(until_s, time.monotonic() + _AFTER_END_S)
        return heard[0] if heard else "what became of its start was not said in time"

    def _tell(self, running: Any) -> None:
        self._report()
        self._look(running)

    def _report(self) -> None:
        """Tell the scheduler how the attempt runs; until it knows, nothing counts as woken."""
        if os.environ.get("GPUCOMMONS_RANK", "0") != "0":
            return
        try:
            self._api.post("/v1/attempt/tree", self._runs_so())
        except (Refused, Unreachable) as error:
            say(f"how its processes run could not be told: {error}")

    def _runs_so(self) -> dict[str, Any]:
        return {
            "hindrance": _line(self._hindrance),
            "cost_ms": self._told["cost_ms"],
            "woken_from": None if self._not_woken else self._woken_from,
            "not_woken": _line(self._not_woken),
        }

    def _look(self, running: Any) -> None:
        """Tell now and then how much saving would write: what a stop costs depends on it."""
        if self._hindrance or os.environ.get("GPUCOMMONS_RANK", "0") != "0":
            return
        from gpucommons.gpu.hibernation.inside import processes  # noqa: PLC0415 - see above

        looks = processes.MemoryLooks(time.monotonic())
        while not (running.has_ended() or running.is_stopping()):
            if wait_s := looks.wait_s(time.monotonic()):
                time.sleep(wait_s)
                continue
            mib = processes.memory_bytes(processes.below(running.number())) // _MIB
            if looks.is_news(mib):
                seen = {"memory_mib": mib, "save_mib_per_s": self._mib_per_s}
                # Else with the next look.
                with suppress(Refused, Unreachable):
                    self._api.once("POST", "/v1/attempt/tree", {**self._runs_so(), **seen})
                    looks.told(mib)
            looks.looked(time.monotonic())

    def _measure(self) -> None:
        """How fast the volume takes what is saved."""
        path = self._root / ".rate"
        block, begun = os.urandom(_MIB), time.monotonic()
        with suppress(OSError):
            with path.open("wb", buffering=0) as stream:
                for _ in range(_PROBE_MIB):
                    stream.write(block)
                os.fsync(stream.fileno())
            self._mib_per_s = max(1, int(_PROBE_MIB / max(0.001, time.monotonic() - begun)))
        with suppress(OSError):
            path.unlink()

    # --- the stop ----------------------------------------------------------------------------

    def stop(self, running: Any, told_s: float, *, may_save: bool) -> bool:
        """Save the processes within half of the grace; False where they have to be told to leave."""
        if self._asleep and self._image.keep()["kept"]:
            # What was being woken never comes to life then.
            running.end()
            return True
        self._asleep = False
        if self._hindrance or not may_save:
            return False
        allowed = self._allowed()
        if allowed is None:
            return False
        self._tried = True
        grace_s = self._told["grace_s"]
        half_s = told_s + grace_s / 2 - time.monotonic()
        # What saves may be slow to let go of the processes; until then they don't hear SIGTERM.
        times = (half_s, grace_s / 4)
        saving = threading.Thread(target=self._save, args=(times, allowed), daemon=True)
        saving.start()
        saving.join(max(0.0, half_s) + _LATE_S)
        if saving.is_alive():
            self._not_saved = "it took longer than half of its grace"
        return not self._not_saved

    def _allowed(self) -> int | None:
        """Bytes that an image may take; None where nothing is to be saved."""
        api = self._api.hasty(_ASK_S)
        try:
            told = api.once("GET", "/v1/attempt/saving")
        except Unreachable:
            # Work that is saved in vain is better than work that is lost: its user's whole limit.
            return int(self._told["max_bytes"])
        except Refused:
            return None
        return int(told["max_bytes"]) if told["saves"] else None

    def _save(self, times: tuple[float, float], most_bytes: int) -> None:
        (seconds, let_go_s), bounds = times, (most_bytes, self._mib_per_s)
        try:
            until_s = time.time() + seconds
            found = self._image.save(self._told["number"], until_s, bounds, let_go_s=let_go_s)
        except (OSError, ValueError, KeyError) as error:
            found = {"refused": str(error)}
        if not found.get("saved"):
            self._not_saved = self._not_saved or str(found.get("refused"))

    def left(self, code: int, *, told: bool) -> str:
        """For the kubelet's record of the end: the image that there is now, or why there is none.

        A pod that was told to end always leaves its word: the command may have left the same before, or printed it.
        """
        facts: Mapping[str, Any] = {}
        if self._asleep or (self._tried and code == SAVED):
            self._share()
            facts = self._image.facts()
        if not (facts or self._not_saved or told):
            return ""
        self.is_kept = bool(facts)
        because = "" if facts else self._not_saved
        return IMAGE + json.dumps({"image": facts, "not_saved": _line(because)})


def _line(text: str) -> str:
    return " ".join(text.split())[:300]


def tree_of(environ: Mapping[str, str], api: Api, root: Path) -> Tree | None:
    """The tree that the scheduler wants for the command; None where it has none in mind."""
    text = environ.get(VARIABLE)
    if text is None:
        return None
    begun = Path(environ["GPUCOMMONS_NOTICE_FILE"]).with_name(BEGUN)
    return Tree(json.loads(text), api, root, begun)
