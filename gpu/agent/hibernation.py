"""A node where pods can save their processes: tried first, then prepared, then offered to the kubelet.

What a pod gets of it, and why it needs that, ``gpu.hibernation.containers`` says. Nothing of ours runs
when a pod saves or wakes: it does that itself, with the rights it has.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpucommons.gpu.hibernation import containers
from gpucommons.gpu.hibernation.criu import criu_at
from gpucommons.gpu.hibernation.scratch import scratch
from gpucommons.gpu.hibernation.self_test import self_test, self_test_as_nobody

logger = logging.getLogger("gpucommons.gpu.agent")

_PROGRAM = Path("usr", "sbin", "criu")
_PREPARING = threading.Lock()
#: Between the tries of a node that failed its self-test.
_AGAIN_S = (15, 60, 300)
_APPARMOR = Path("/sys/module/apparmor/parameters/enabled")
_CONFINED = (
    "AppArmor confines the containers of this node, and its usual profile forbids them to mount. Give"
    " notebooks a profile that allows it, and say so (hibernation.appArmorAllowsMounts)."
)


class Plugin(Protocol):
    """An offer to the kubelet that stands."""

    def close(self) -> None:
        """Take it back."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Preparation:
    """Where things are, and where they go."""

    #: Unpacked, as ``gpucommons hibernation setup`` leaves it in ``root``.
    criu: Path
    kubelet: Path
    #: Where the runtime looks for devices.
    devices: Path
    #: The agent's own, at the same path for the node.
    folder: Path
    #: Whether pods may mount although the node has AppArmor.
    mounts_allowed: bool = False
    apparmor: Path = _APPARMOR


class HibernationOffer:
    """The offer of one node, for as long as it is open; the agent's start does not wait for it."""

    def __init__(
        self,
        preparation: Preparation,
        *,
        offer: Callable[[Callable[[], None]], Plugin],
        try_out: Callable[[Path], str | None],
        again_s: Sequence[float] = _AGAIN_S,
    ) -> None:
        """``try_out`` says why the node's CRIU cannot do it; ``offer`` is called when all is ready.

        It gets what is to be called before each pod: somebody may have removed a file meanwhile.
        What failed is tried again after each of ``again_s``: a node that boots is busy.
        """
        self._again_s = again_s
        self._preparation = preparation
        self._offer = offer
        self._try_out = try_out
        self._plugin: Plugin | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hibernation", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Offer nothing any more; the files stay for the containers that run."""
        with self._lock:
            self._closed.set()
            if self._plugin is not None:
                self._plugin.close()

    def _run(self) -> None:
        for pause_s in (*self._again_s, None):
            because = self._try()
            if because is None:
                with self._lock:
                    if not self._closed.is_set():
                        self._plugin = self._offer(lambda: prepare(self._preparation))
                return
            logger.warning("pods of this node cannot save their processes. %s", because)
            if pause_s is None or self._closed.wait(pause_s):
                return

    def _try(self) -> str | None:
        because = why_not(self._preparation) or self._try_out(self._preparation.criu)
        # Made anew, as this version makes it; or gone, for a pod that gets it could not use it.
        (self._preparation.devices / containers.DEVICE_FILE).unlink(missing_ok=True)
        if because is None:
            try:
                prepare(self._preparation)
            except (OSError, ValueError) as error:
                because = f"The node cannot be prepared: {error}."
        return because


def why_not(preparation: Preparation) -> str | None:
    """What forbids it before anything is tried."""
    try:
        enabled = preparation.apparmor.read_text(encoding="ascii").strip() == "Y"
    except OSError:
        enabled = False
    if enabled and not preparation.mounts_allowed:
        return _CONFINED
    if not _is_whole(preparation.criu):
        return f"There is no CRIU in {preparation.criu}."
    return None


def prepare(preparation: Preparation) -> None:
    """Put the filter, CRIU and the device where kubelet and runtime look for them, unless they are there.

    Raises
    ------
    OSError, ValueError
        When one of them cannot be put there.
    """
    device = preparation.devices / containers.DEVICE_FILE
    profile = preparation.kubelet / "seccomp" / containers.PROFILE
    # The kubelet asks for several pods at once, and what is half written has one name.
    with _PREPARING:
        criu = _offered_criu(device)
        if criu is not None and _is_whole(criu) and profile.exists():
            return
        criu = _copied(preparation.criu, preparation.folder)
        _write(profile, containers.seccomp_filter(platform.machine()))
        _write(device, containers.device_spec(criu))


def try_as_nobody(criu: Path) -> str | None:
    """Save and wake a small process on this node, as a user without any right; why it failed, or None."""
    found = criu_at(criu)
    if found is None:
        return f"In {criu} is no CRIU 4.2 or newer that only root can change."
    with scratch(Path(tempfile.gettempdir())) as place:
        as_root = os.geteuid() == 0
        ability = self_test_as_nobody(found, place) if as_root else self_test(found, place)
    if not ability.can_hibernate:
        return ability.because
    speeds = (ability.save_mib_per_s, ability.wake_mib_per_s)
    logger.info("a process was saved (%d MiB/s) and woken (%d MiB/s)", *speeds)
    return None


def _offered_criu(device: Path) -> Path | None:
    """The copy that pods get by this device; None where there is no device, or nothing sensible."""
    try:
        [offered] = json.loads(device.read_bytes())["devices"]
        mounts = offered["containerEdits"]["mounts"]
        return next(Path(each["hostPath"]) for each in mounts if each["type"] == "bind")
    except (OSError, ValueError, TypeError, KeyError, StopIteration):
        return None


def _is_whole(criu: Path) -> bool:
    return (criu / _PROGRAM).is_file()


def _copied(source: Path, folder: Path) -> Path:
    """The node's own copy, by its content: containers that run keep the one they began with."""
    digest = hashlib.sha256()
    for path in sorted(source.rglob("*")):
        if path.is_file():
            digest.update(str(path.relative_to(source)).encode() + path.read_bytes())
    target = folder / f"criu-{digest.hexdigest()[:16]}"
    if not _is_whole(target):
        shutil.rmtree(target, ignore_errors=True)
        partial = folder / "criu.partial"
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(source, partial, symlinks=True)
        # The names of the copy's own files; what was a stranger's is not any more.
        for path in (partial, *partial.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & 0o755)
        partial.rename(target)
    return target


def _write(path: Path, document: object) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    # The runtime reads whatever ends in .json.
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(document, indent=1), encoding="utf-8")
    partial.chmod(0o644)
    partial.replace(path)
