"""NVIDIA's MPS, for pools that ask for it: the one compute cap without MIG.

Never by default: a fault of one client ends all clients on the card, and its limits bind each
process, not the slice. An admin starts the daemon; here a workload is only pointed at it. A wrong
pipe directory would run as plain CUDA with the whole card, silently, so the pipe is checked first.
"""

from __future__ import annotations

import stat
from pathlib import Path

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device
from gpucommons.gpu.errors import LimitNotInForce
from gpucommons.gpu.providers.base import (
    Capability,
    Grant,
    Held,
    Injection,
    NodeTraits,
    NothingOutside,
)
from gpucommons.gpu.slices.memory_of_share import fraction_mib
from gpucommons.gpu.slices.slices import MpsDaemon

_MILLI_PER_PERCENT = 10
#: From this version on limits belong to namespaces that the admin made.
_WITH_NAMESPACES = 3


class MpsProvider(NothingOutside):
    """A fraction of a card's memory and multiprocessors, for each process."""

    name = "mps"

    def probe(self, traits: NodeTraits) -> Capability:
        """Works on real cards, for slices of pools that opted in."""
        if traits.simulated:
            return Capability(usable=False, reason="Simulated devices have no driver.")
        return Capability(
            usable=True,
            reason="Only for pools that opt in: a fault of one process ends all on the card.",
        )

    def quantize(self, device: Device, milli_gpu: int, traits: NodeTraits) -> Grant | None:
        """Any fraction of a card that is not cut into instances, where the pool opted in.

        Raises
        ------
        SliceTooSmall
            When the share's memory is below the least that is useful.
        """
        memory_mib = None if traits.mps is None else fraction_mib(device, milli_gpu)
        if memory_mib is None or device.device_id.startswith("MIG-"):
            return None
        return Grant(
            provider=self.name, milli_gpu=milli_gpu, memory_mib=memory_mib, isolation="driver"
        )

    def prepare(self, held: Held, traits: NodeTraits) -> Injection:
        """Point the workload at the daemon.

        Raises
        ------
        LimitNotInForce
            When nobody listens there.
        """
        daemon = held.slice.mps
        if not held.fractions or daemon is None:
            return Injection()
        self.verify(held)
        (_, memory_mib), *others = held.fractions
        if others:
            return Injection()
        milli_gpu = next(s.milli_gpu for s in held.slice.shares if s.milli_gpu < WHOLE_MILLI_GPU)
        if daemon.version >= _WITH_NAMESPACES:
            return Injection(env={"CUDA_MPS_PIPE_DIRECTORY": str(_namespace(daemon, milli_gpu))})
        return Injection(
            env={
                "CUDA_MPS_PIPE_DIRECTORY": daemon.pipe,
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(max(1, milli_gpu // _MILLI_PER_PERCENT)),
                # One entry for the one card it sees: an entry for a card that it does not see
                # would drop every limit.
                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={memory_mib}M",
            }
        )

    def verify(self, held: Held) -> None:
        """Look for the daemon's pipe, and in version 3 for the namespace of this size.

        Raises
        ------
        LimitNotInForce
            When it is not there.
        """
        daemon = held.slice.mps
        if daemon is None or not held.fractions:
            return
        pipe = Path(daemon.pipe) / "control"
        if not _is_pipe(pipe):
            message = (
                f"No MPS daemon listens at {pipe}, and without it nothing would be limited: "
                "start `nvidia-cuda-mps-control -d` with this pipe directory."
            )
            raise LimitNotInForce(message)
        if daemon.version >= _WITH_NAMESPACES:
            milli_gpu = min(share.milli_gpu for share in held.slice.shares)
            namespace = _namespace(daemon, milli_gpu)
            if not namespace.is_dir():
                message = (
                    f"MPS has no namespace {namespace.name} below {namespace.parent}: make one "
                    "with active_thread_percentage and pinned_memory_limit of this size."
                )
                raise LimitNotInForce(message)


def _namespace(daemon: MpsDaemon, milli_gpu: int) -> Path:
    return Path(daemon.pipe) / daemon.server / f"milli-{milli_gpu}"


def _is_pipe(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
