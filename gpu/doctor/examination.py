"""Gathers the facts of this node for the diagnosis. Changes nothing that lasts."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from gpucommons.gpu import shim
from gpucommons.gpu.agent.control.node import has_nvml, isolation_of
from gpucommons.gpu.doctor.diagnosis import Facts
from gpucommons.gpu.hibernation.above_server import groups
from gpucommons.gpu.hibernation.criu import Criu, find_criu
from gpucommons.gpu.hibernation.preload import library
from gpucommons.gpu.hibernation.self_test import (
    Ability,
    gpu_self_test,
    self_test,
    self_test_for_users,
)
from gpucommons.gpu.linux.control_groups import find_mount
from gpucommons.gpu.node.node_traits import Wishes, survey
from gpucommons.gpu.node.telemetry import Telemetry
from gpucommons.gpu.parking import self_test as parking
from gpucommons.gpu.providers.stack import capabilities, provider_stack
from gpucommons.gpu.shim.audit import audit
from gpucommons.gpu.slices.slice_folders import SliceFolders

_MPS_PROGRAM = "nvidia-cuda-mps-control"


def examine(state: Path, *, shared_account: bool = False) -> Facts:
    """Look at this machine, with the driver where there is one."""
    return replace(_examine(state), shared_account=shared_account)


def _examine(state: Path) -> Facts:
    if not has_nvml():
        return _facts(None, state, "there is no libnvidia-ml.so.1, so no driver of NVIDIA")
    from gpucommons.gpu.nvml import NvmlTelemetry  # noqa: PLC0415 - see has_nvml

    telemetry = NvmlTelemetry()
    try:
        trouble = "" if telemetry.devices() else telemetry.greeting.removeprefix("No real GPU: ")
        return _facts(telemetry, state, trouble.rstrip("."))
    finally:
        telemetry.close()


def _facts(telemetry: Telemetry | None, state: Path, no_nvml: str) -> Facts:
    mount = find_mount()
    existing = next(folder for folder in (state, *state.parents) if _is_there(folder))
    disk = shutil.disk_usage(existing)
    closed = closed_at(Path(sys.executable)) or closed_at(Path(__file__))
    criu = find_criu(os.environ)
    facts = Facts(
        criu=None if criu is None else criu.version,
        hibernation=_hibernation(criu),
        semaphores=library() is not None,
        no_group=groups.hindrance(),
        no_nvml=no_nvml,
        kernel=platform.release(),
        cgroup_mount=None if mount is None else str(mount),
        controllers=_controllers(mount),
        root=os.geteuid() == 0,
        mps_program=shutil.which(_MPS_PROGRAM),
        interpreter=sys.executable,
        closed_at=None if closed is None else str(closed),
        state=str(existing),
        offers_editor=find_spec("jupyter_vscode_proxy") is not None,
        editor_program=shutil.which(os.environ.get("CODE_EXECUTABLE", "code-server")),
        free_bytes=disk.free,
        total_bytes=disk.total,
    )
    if telemetry is None or not telemetry.devices():
        return facts
    return _with_gpus(facts, telemetry, criu)


def _with_gpus(facts: Facts, telemetry: Telemetry, criu: Criu | None) -> Facts:
    """What can be found out with a driver alone, too."""
    with tempfile.TemporaryDirectory(prefix="gc") as scratch:
        ground = survey(telemetry, SliceFolders(Path(scratch)), Wishes())
    stack = provider_stack(ground.traits, ground.providers)
    driver = shim.find_drivers().cuda
    ability = parking.self_test(driver)
    gpu_not_saved = None
    if criu is not None and driver is not None and ability.can_park and _can_hibernate(facts):
        gpu_not_saved = gpu_self_test(criu, Path(tempfile.gettempdir()), driver) or ""
    return replace(
        facts,
        traits=ground.traits,
        capabilities=capabilities(ground.traits, ground.providers),
        devices=telemetry.devices(),
        isolations={d.device_id: isolation_of(stack, d) for d in telemetry.devices()},
        unknown_calls=_unknown_calls(),
        parking=ability,
        gpu_not_saved=gpu_not_saved,
    )


def _hibernation(criu: Criu | None) -> Ability:
    """Whether users can save processes here; as root by trying it as one, where that can be done."""
    if criu is not None and os.geteuid() == 0:
        with tempfile.TemporaryDirectory() as place:
            ability = self_test_for_users(criu, Path(place))
        if ability.can_hibernate:
            return ability
    return self_test(criu, Path(tempfile.gettempdir()))


def _can_hibernate(facts: Facts) -> bool:
    return facts.hibernation is not None and facts.hibernation.can_hibernate


def _is_there(folder: Path) -> bool:
    """Whether this account can see it: another's state may lie in a closed folder."""
    try:
        return folder.exists()
    except OSError:
        return False


def _controllers(mount: Path | None) -> tuple[str, ...]:
    if mount is None:
        return ()
    try:
        return tuple((mount / "cgroup.controllers").read_text(encoding="ascii").split())
    except OSError:
        return ()


def _unknown_calls() -> tuple[str, ...]:
    driver = shim.find_drivers().cuda
    if driver is None:
        return ()
    try:
        return audit(driver)
    except OSError:
        return ()


def closed_at(path: Path) -> Path | None:
    """The first folder or file on the way that other accounts may not pass or read."""
    resolved = path.resolve()
    for step in (*reversed(resolved.parents), resolved):
        mode = step.stat().st_mode
        needed = stat.S_IXOTH if step.is_dir() else stat.S_IROTH
        if not mode & needed:
            return step
    return None
