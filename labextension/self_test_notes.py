"""What a self-test on a GPU found here, for this server and the next ones.

One that failed may have met a busy machine or a full card, and not a driver that cannot. So it is tried
again soon; and then ever later, as each try takes the GPU for seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gpucommons.labextension.private_files import write_private

#: After the first failure, and at most.
FIRST_AGAIN_S, LAST_AGAIN_S = 60.0, 24 * 3600.0
_TIMES_LONGER = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """The last test, of as many in a row as failed."""

    #: Empty = it passed.
    because: str
    at_s: float
    failed: int

    @classmethod
    def of(
        cls,
        path: Path,
        here: dict[str, Any],
        test: Callable[[], str],
        now_s: Callable[[], float],
    ) -> Self:
        """The last test's; where none is noted or another is due, that of a test that is done now.

        ``test`` tells why it failed, with an empty text where it passed.
        """
        note = cls.read(path, here)
        if note is None or (note.because and not note.again_s(now_s())):
            because = test()
            failed = (0 if note is None else note.failed) + 1 if because else 0
            note = cls(because=because, at_s=now_s(), failed=failed)
            with suppress(OSError):  # it is true without a note; the next server tries it again
                note.write(path, here)
        return note

    @classmethod
    def read(cls, path: Path, here: dict[str, Any]) -> Self | None:
        """What is noted of this machine and driver; None where nothing is, or nothing that can be read."""
        try:
            found = json.loads(path.read_bytes())
            if found["here"] != here:
                return None
            told, at_s, failed = found["because"], found["at_s"], found.get("failed", 1)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None
        is_sound = isinstance(told, str) and isinstance(at_s, float) and isinstance(failed, int)
        return cls(because=told, at_s=at_s, failed=failed) if is_sound else None

    def write(self, path: Path, here: dict[str, Any]) -> None:
        """Keep it.

        Raises
        ------
        OSError
            When the disk refuses.
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        told = {"here": here, "because": self.because, "at_s": self.at_s, "failed": self.failed}
        write_private(path, json.dumps(told))

    def again_s(self, now_s: float) -> float:
        """Until it is tried again, 0 where that is due; a clock that was set back does not put it off."""
        if self.at_s > now_s:
            return 0.0
        # A note that somebody wrote by hand may name any number.
        longer: int = _TIMES_LONGER ** max(0, min(self.failed, 16) - 1)
        pause_s = min(LAST_AGAIN_S, FIRST_AGAIN_S * longer)
        return max(0.0, self.at_s + pause_s - now_s)
