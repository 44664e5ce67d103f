"""Whether processes can be saved and woken on this machine: tried once, beside everything else.

The trial takes a second or two, more on a busy machine, and nobody waits for it: until it is over
nothing is known, and jobs run as on a machine that cannot. So what it found is written down: a scheduler
that comes back goes by that until its own trial is over, where CRIU and kernel are the same. Where there
is no CRIU it is looked for again, as it may be installed while the scheduler runs.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from gpucommons.gpu.hibernation.criu import Criu, find_criu
from gpucommons.gpu.hibernation.self_test import Ability, self_test
from gpucommons.scheduler.core.going_on.sentences import as_clause
from gpucommons.scheduler.core.model.going_on import HibernationAbility
from gpucommons.scheduler.executors.local import saving_speed
from gpucommons.scheduler.executors.local.attempt.saving_turns import TURNS, note_trial, speed_of
from gpucommons.scheduler.files.durable_files import write_whole

log = logging.getLogger("gpucommons.scheduler.executors.abilities")

_PATIENCE_S = 60.0
#: Of so many trials the usual speed counts: one beside much else says little of the disk.
_TRIALS = 5
#: A CRIU that was not there is looked for so often.
_AGAIN_S = 30.0
_NO_CRIU = "no CRIU 4.2 or newer was found on its machine (the command gpucommons hibernation setup gets one)"
_NOT_LINUX = "only Linux can save live processes"
Test = Callable[[Criu, Path, float], Ability]


class Abilities:
    """What this machine can do, once it is known."""

    def __init__(
        self,
        environ: Mapping[str, str],
        folder: Path,
        test: Test = self_test,
        steady_s: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._environ, self._folder, self._test = environ, folder, test
        self._steady_s, self._now_ms = steady_s, now_ms
        self._criu: Criu | None = None
        self._found: HibernationAbility | None = None
        self._by_root = False
        #: What was measured by earlier trials of the same, newest last: MiB/s saved and woken.
        self._rates: list[tuple[int, int]] = []
        self._is_over = False
        self._thread: threading.Thread | None = None
        #: When to look for a CRIU that was not there.
        self._again_s: float | None = None

    def found(self) -> HibernationAbility | None:
        """What the trial found; None while it runs."""
        again_s = self._again_s
        if self._thread is None or (again_s is not None and self._steady_s() >= again_s):
            self._again_s = None
            self._thread = threading.Thread(target=self._try, name="self-test", daemon=True)
            self._thread.start()
        return self._by_saves(self._found)

    def _by_saves(self, found: HibernationAbility | None) -> HibernationAbility | None:
        """With the speed that saves since the trial have shown."""
        if found is None or not found.able or not found.save_mib_per_s:
            return found
        speed = speed_of(self._turns, found.save_mib_per_s)
        rate = saving_speed.predicted_mib_per_s(speed, self._now_ms())
        return replace(found, save_mib_per_s=rate)

    def are_known(self) -> bool:
        """Whether the trial is over, whatever it found."""
        self.found()
        return self._is_over

    def criu(self) -> tuple[str, ...]:
        """How CRIU is started; empty where there is none."""
        return () if self._criu is None else self._criu.command

    def is_by_root(self) -> bool:
        """Whether root starts what is to be saved, as users may make no namespaces here."""
        return self._by_root

    def _try(self) -> None:
        try:
            self._find_out()
        finally:
            self._is_over = True

    def _find_out(self) -> None:
        try:
            self._criu = find_criu(self._environ)
            if self._criu is None:
                because = _NO_CRIU if sys.platform == "linux" else _NOT_LINUX
                self._found = HibernationAbility(able=False, because=because)
                self._again_s = self._steady_s() + _AGAIN_S
                return
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._recall(self._criu)
            ability = self._test(self._criu, self._folder, _PATIENCE_S)
        except Exception as error:  # noqa: BLE001 - what is not known is not offered
            log.warning("whether processes can be saved here is not known: %s", error)
            because = f"whether its machine can save processes could not be tested ({error})"
            self._found = HibernationAbility(able=False, because=because)
            return
        self._by_root = ability.by_root
        if not ability.can_hibernate:
            log.warning("jobs are not hibernated here: %s", ability.because)
        if ability.can_hibernate:
            saved = _slower(ability.save_mib_per_s, ability.disk_mib_per_s)
            self._rates = [*self._rates, (saved, ability.wake_mib_per_s)][-_TRIALS:]
        self._found = HibernationAbility(
            able=ability.can_hibernate,
            because=as_clause(ability.because),
            save_mib_per_s=_usual(saved for saved, _ in self._rates),
            wake_mib_per_s=_usual(woken for _, woken in self._rates),
        )
        self._write_down(self._criu, self._found)
        with suppress(OSError):
            note_trial(self._turns, self._found.save_mib_per_s)

    def _recall(self, criu: Criu) -> None:
        """Go by what a trial before found of the same CRIU and kernel, until this one is over."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            told = json.loads(self._record.read_text())
            if self._found is None and told["of"] == _of(criu):
                self._by_root = bool(told["by_root"])
                self._rates = [(int(saved), int(woken)) for saved, woken in told["rates"]]
                self._found = HibernationAbility(**told["ability"])

    def _write_down(self, criu: Criu, found: HibernationAbility) -> None:
        document = {
            "of": _of(criu),
            "by_root": self._by_root,
            "rates": self._rates,
            "ability": asdict(found),
        }
        # Without it a scheduler that comes back knows it some seconds later.
        with suppress(OSError):
            write_whole(self._record, json.dumps(document).encode(), mode=0o600)

    @property
    def _turns(self) -> Path:
        return self._folder.with_name(TURNS)

    @property
    def _record(self) -> Path:
        return self._folder.with_suffix(".json")


def _of(criu: Criu) -> list[str]:
    """What a trial's outcome depends on; a kernel that was booted anew may have other settings."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return [*criu.command, criu.version, os.uname().release, boot]


def _slower(*rates: int) -> int:
    """What holds also when the disk's cache is full."""
    return min((rate for rate in rates if rate > 0), default=0)


def _usual(rates: Iterable[int]) -> int:
    """The one in the middle, of two the faster: a trial is slowed down by others, and never sped up."""
    found = sorted(rates)
    return found[len(found) // 2] if found else 0
