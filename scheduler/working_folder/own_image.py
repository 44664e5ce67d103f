"""A worker's processes as its user keeps them on disk: taken over, saved, looked at, dropped.

Run as the job's user, like all errands: nobody with more rights opens an image, or wakes it. The
folder goes from attempt to attempt by a rename, so that there is never more than one of it. What a
woken process has open bears the names of the attempt in which it began; ``lived.json`` says which.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.folder import DESCRIPTION
from gpucommons.gpu.hibernation.tree import HibernatableTree, Saved
from gpucommons.scheduler.files.confined_files import remove

#: Below an attempt's ``run``.
NAME = "hibernation"
_LIVED = "lived.json"
_NOTICE = "notice"
_MIB = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnImage:
    """The folder of one attempt's processes."""

    run: Path
    criu: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Handed over as a whole."""
        return self.run / NAME

    @property
    def tree(self) -> HibernatableTree:
        """As those who save and wake know it."""
        return HibernatableTree(own_folder(self.run), Criu(command=self.criu, version=""))

    def ready(self, earlier: Sequence[Path], number: int, promised: str) -> dict[str, Any]:
        """Take over the image that was promised; says what starts the worker, and what it needs.

        Any other is dropped: it holds work that counts as lost, and may have been done again since.
        """
        for before in earlier:
            if self.is_promised(promised):
                break
            if OwnImage(run=before).is_promised(promised):
                remove(self.folder)
                (before / NAME).rename(self.folder)
        drop(earlier)
        if not self.is_promised(promised):
            return self.anew(number)
        lived = json.loads((self.folder / _LIVED).read_text())
        origin = Path(lived["run"])
        places = [] if origin == self.run else [[str(self.run), str(origin)]]
        if places:
            # What was announced to the attempt before is not for this one.
            places.append([str(self.run.parent / _NOTICE), str(origin.parent / _NOTICE)])
        return {
            "prefix": self.tree.wake_command(),
            "places": places,
            "woken_from": lived["number"],
        }

    def anew(self, number: int) -> dict[str, Any]:
        """What starts the worker's command in a tree; an image that is there is dropped."""
        remove(self.folder)
        self.tree.folder.mkdir(mode=0o700, parents=True)
        self._note_lived(self.run, number)
        return {"prefix": self.tree.run_command([]), "places": [], "woken_from": None}

    def outcome(self, seconds: float) -> dict[str, Any]:
        """What became of a start: a refusal, or nothing."""
        refused = self.tree.awake(seconds)
        return {} if refused is None else {"refused": refused.because}

    def keep(self) -> dict[str, Any]:
        """Take the image back from whoever is waking it, unless it has come to life already."""
        return {"kept": self.tree.take_back()}

    def save(
        self,
        number: int,
        until_s: float,
        bounds: tuple[int, int],
        *,
        let_go_s: float | None = None,
    ) -> dict[str, Any]:
        """Save the tree and end it; a refusal leaves it running.

        ``until_s`` is by the wall clock, ``let_go_s`` how long after it what saves may keep hold of the
        processes, ``bounds`` are bytes that it may take and MiB in a second: what
        cannot be written in time is not begun. 0 = whoever asks has looked at that.
        """
        # Before it, as nothing may fail behind it.
        lived = json.loads((self.folder / _LIVED).read_text())
        self._note_lived(Path(lived["run"]), number)
        now_s = time.time()
        seconds = max(0.0, until_s - now_s)
        if let_go_s is not None:
            # One that begins late has no more time for that.
            let_go_s = max(0.0, until_s + let_go_s - now_s - seconds)
        most_bytes, mib_per_s = bounds
        if mib_per_s:
            most_bytes = min(most_bytes, int(seconds * mib_per_s * _MIB))
        found = self.tree.save(seconds, most_bytes=most_bytes, let_go_s=let_go_s)
        if isinstance(found, Saved):
            return {"saved": True}
        return {"refused": found.because, "alive": found.alive}

    def facts(self) -> dict[str, Any]:
        """What is known of the image; empty where there is none."""
        image = self.tree.image()
        if image is None:
            return {}
        description = (image.folder / DESCRIPTION).read_bytes()
        return {
            "size_bytes": image.bytes,
            "save_ms": int(image.seconds * 1000),
            "sha256": hashlib.sha256(description).hexdigest(),
        }

    def is_promised(self, sha256: str) -> bool:
        """Whether it is the image of which that was said."""
        return bool(sha256) and self.has_image() and self.facts().get("sha256") == sha256

    def has_image(self) -> bool:
        """Whether it can be woken, as far as its folder tells."""
        return (self.folder / _LIVED).is_file() and self.tree.image() is not None

    def _note_lived(self, run: Path, number: int) -> None:
        partial = self.folder / f"{_LIVED}.partial"
        partial.write_text(json.dumps({"run": str(run), "number": number}))
        partial.replace(self.folder / _LIVED)


def own_folder(run: Path) -> Path:
    """Where the processes of the attempt with this folder are kept."""
    return run / NAME / "tree"


def drop(runs: Sequence[Path]) -> int:
    """Delete what attempts keep of their processes; says how many images were among it."""
    dropped = 0
    for run in runs:
        dropped += OwnImage(run=run).has_image()
        remove(run / NAME)
    return dropped
