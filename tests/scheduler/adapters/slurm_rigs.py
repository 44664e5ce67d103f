"""A Slurm to run attempts on: the fake one of this folder, or the real one as one node of this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from executor_rigs import NOWHERE, PATIENCE_S, LocalRig
from free_ports import free_port

from gpucommons.scheduler.adapters.slurm.executor import SlurmExecutor
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import Millis, PoolName
from gpucommons.scheduler.executors.base import Executor
from gpucommons.scheduler.executors.plugin import Offer

_PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")
_CONF = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
MailProg=/bin/true
ReturnToService=2
KillWait=2
SchedulerParameters=batch_sched_delay=0,sched_min_interval=10000
NodeName={host} NodeAddr=127.0.0.1 CPUs=32 RealMemory=64000 Gres=gpu:sim:4 State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_FILES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random")


def missing_slurm() -> str:
    """Why there is no real Slurm to test with; "" where there is one."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    lacking = [name for name in _PROGRAMS if shutil.which(name, path=path) is None]
    if lacking:
        return f"no {', '.join(lacking)} here (Debian: apt-get install slurm-wlm)"
    return "" if os.getuid() == 0 else "slurmd and its node's jobs need root"


@contextmanager
def real_slurm(folder: Path) -> Iterator[Path]:
    """One node with four GPUs that are none; its ``slurm.conf``."""
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(mode=0o755)
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    host = socket.gethostname().partition(".")[0]
    conf = folder / "slurm.conf"
    conf.write_text(_CONF.format(host=host, folder=folder, ports=(free_port(), free_port())))
    gres = (f"NodeName={host} Name=gpu Type=sim File={file}\n" for file in _FILES)
    (folder / "gres.conf").write_text("".join(gres))
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    env = {**os.environ, "SLURM_CONF": str(conf), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    munge = ("key-file=key", "socket=socket", "pid-file=pid", "log-file=log", "seed-file=seed")
    parts = [f"--{name}={folder}/munge/{file}" for name, file in (m.split("=") for m in munge)]
    try:
        subprocess.run(["munged", "--force", *parts], env=env, check=True, capture_output=True)
        subprocess.run(["slurmctld"], env=env, check=True, capture_output=True)
        subprocess.run(["slurmd"], env=env, check=True, capture_output=True)
        _until_idle(env)
        yield conf
    finally:
        for file in ("slurmctld.pid", "slurmd.pid", "munge/pid"):
            with suppress(OSError, ValueError):
                os.kill(int((folder / file).read_text()), 15)


def _until_idle(env: Mapping[str, str]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while "idle" not in (
        told := subprocess.run(
            ["sinfo", "--noheader", "--format=%T"],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        ).stdout
    ):
        assert time.monotonic() < end_s, f"the node of the real Slurm does not come: {told}"
        time.sleep(0.1)


def fake_slurm(folder: Path) -> Path:
    """Commands of the fake one; their folder."""
    (folder / "jobs").mkdir(parents=True)
    source = (Path(__file__).parent / "fake_slurm" / "slurm.py").read_text()
    for name in ("sbatch", "squeue", "scancel", "scontrol"):
        (folder / name).write_text(f"#!{sys.executable} -IS\n{source}")
        (folder / name).chmod(0o755)
    return folder


class SlurmRig(LocalRig):
    """Attempts through Slurm; what its workers do is what a workstation's do."""

    node = "slurm-cpu-0"
    api_url = NOWHERE

    def __init__(self, folder: Path, *, pool: Pool | None = None, **settings: Any) -> None:
        self.pool = pool or Pool(name=PoolName("cpu"), executor="slurm", grace_ms=2000)
        file = folder / "slurm.yaml"
        of_pool = {"nodes": 1, "gpus_per_node": 4, "gpu_memory_gib": 80, "cpus_per_node": 16}
        of_pool["memory_gib_per_node"] = 32
        document = {
            "folder": str(folder / "shared"),
            "homes": str(folder / "home/{user}"),
            "trusted_users": True,
            "jobs_as_root": True,
            "pools": {self.pool.name: of_pool | settings.pop("of_pool", {})},
            "look_s": 0.1,
            "files_late_s": 0.5,
            **settings,
        }
        file.write_text(yaml.safe_dump(document))
        self._file = file
        super().__init__(folder)

    def _boot(self) -> Executor:  # type: ignore[override] # what the base's own methods need
        offer = Offer(
            name="slurm",
            settings=self._file,
            state=self._folder,
            pools=lambda: (self.pool,),
            snapshot_path=None,
            wake=lambda: None,
            now_ms=self.now,
        )
        return SlurmExecutor(offer)

    def clear(self) -> None:
        (self._folder / "slurm" / "away").unlink(missing_ok=True)
        self.restart()
        self.executor.adopt(())
        end_s = time.monotonic() + PATIENCE_S
        while any(one.running for one in self.executor.since(Millis(0))):
            assert time.monotonic() < end_s, "an attempt that nobody knows still runs"
            time.sleep(0.05)
        self.executor.close()


def faked(folder: Path, **settings: Any) -> SlurmRig:
    """With the fake one in ``folder/slurm``."""
    return SlurmRig(folder, bin=str(fake_slurm(folder / "slurm")), **settings)
