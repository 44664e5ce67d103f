"""The real thing: a scheduler on disk with real processes, killed with SIGKILL again and again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from gpucommons.scheduler.core.model.intents import Intent, PutPools, PutTeams, Submit
from gpucommons.scheduler.core.model.resources import Pool, Team
from gpucommons.scheduler.core.model.types import (
    AttemptState,
    IntentId,
    Kind,
    Millis,
    PoolName,
    Role,
    Spec,
    State,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.ids import IdSource
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.opening import open_store

JOBS, KILLS = 10, 6
PATIENCE_S = 60

SCHEDULER = """
import os, sys, threading, time
from pathlib import Path
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.executors.local.local import LocalExecutor, LocalSettings
from gpucommons.scheduler.ids import IdSource
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.store.opening import open_store

folder = Path(sys.argv[1])
now = lambda: time.time_ns() // 1_000_000
node = Node(node_id="box", pool="cpu", devices=(), cpu_milli=4000, memory_mib=64000)
executor = LocalExecutor(
    LocalSettings(
        state_dir=folder, home_of=lambda user: folder, nodes=lambda: (node,),
        environ={"PATH": os.environ["PATH"]},
    ),
    on_change=lambda: loop.wake(),
)
loop = Loop(
    Surroundings(
        store=open_store(f"sqlite:///{folder}/store.db"), executors={"local": executor}, now=now,
        new_ids=IdSource(now), token_of=lambda attempt_id: "t", api_url="http://127.0.0.1:1",
    )
)
loop.start()
print("ready", flush=True)
while loop.lost is None:
    loop.wake()
    time.sleep(0.02)
"""

WORKER = """
import os, sys, time
line = f"{os.environ['GPUCOMMONS_JOB_NAME']} {os.environ['GPUCOMMONS_ATTEMPT']}" + chr(10)
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(file, line.encode())
time.sleep(float(sys.argv[2]))
"""


def boot(folder: Path) -> subprocess.Popen[str]:
    with (folder / "scheduler.log").open("a") as log:
        return subprocess.Popen(
            [sys.executable, "-c", SCHEDULER, str(folder)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )


def kill(scheduler: subprocess.Popen[str]) -> None:
    os.kill(scheduler.pid, signal.SIGKILL)
    scheduler.wait()
    assert scheduler.stdout is not None
    scheduler.stdout.close()


def look_in(database: Path) -> None:
    """As somebody does with ``sqlite3``: another process opens the database, reads, and goes."""
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('select * from events')"
    )
    subprocess.run([sys.executable, "-c", f"{code}; c.close()", str(database)], check=True)


def ask(store: Store, ids: IdSource, action: object) -> None:
    intent = Intent(
        intent_id=IntentId(next(ids)),
        action=action,  # type: ignore[arg-type] # an action
        by=UserName("ada"),
        at_ms=Millis(time.time_ns() // 1_000_000),
    )
    store.put_intent(intent)


def submit(store: Store, ids: IdSource, number: int, command: tuple[str, ...]) -> WorkloadId:
    spec = Spec(
        kind=Kind.TRAINING,
        name=f"digits-{number}",
        team=TeamName("vision"),
        owner=UserName("ada"),
        submitted_by=UserName("ada"),
        pools=(PoolName("cpu"),),
        roles=(Role(command=command, cpu_milli=1000, memory_mib=64),),
    )
    workload_id = WorkloadId(next(ids))
    ask(store, ids, Submit(workload_id=workload_id, spec=spec))
    return workload_id


def test_nothing_is_lost_or_doubled_however_often_it_is_killed(tmp_path: Path) -> None:
    chance = random.Random(20)  # noqa: S311 - moments, not secrets
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    ids = IdSource(lambda: time.time_ns() // 1_000_000)
    ask(store, ids, PutPools(pools=(Pool(name=PoolName("cpu")),)))
    team = Team(name=TeamName("vision"), members=frozenset({UserName("ada")}))
    ask(store, ids, PutTeams(teams=(team,)))
    starts = tmp_path / "starts"
    jobs: list[WorkloadId] = []
    scheduler = boot(tmp_path)
    try:
        for turn in range(KILLS):
            assert scheduler.stdout is not None
            if turn % 3:
                # Else it may die before it has adopted anything.
                assert scheduler.stdout.readline() == "ready\n"
            for _ in range(JOBS // KILLS + 1):
                seconds = f"{chance.uniform(0.1, 1.0):.2f}"
                command = (sys.executable, "-c", WORKER, str(starts), seconds)
                jobs.append(submit(store, ids, len(jobs), command))
            time.sleep(chance.uniform(0.0, 0.7))
            look_in(tmp_path / "store.db")
            kill(scheduler)
            scheduler = boot(tmp_path)
        wait_for_all(store, jobs)
    finally:
        kill(scheduler)
    for job in jobs:
        workload = store.workload(job)
        assert workload is not None
        assert workload.state is State.SUCCEEDED, (
            workload,
            (tmp_path / "scheduler.log").read_text(),
        )
        assert [a.state for a in workload.attempts] == [AttemptState.ENDED]
    began = Counter(starts.read_text().splitlines())
    assert began == {f"digits-{number} 1": 1 for number in range(len(jobs))}
    numbers = [stored.number for stored in store.events(limit=10_000)]
    assert numbers == list(range(1, len(numbers) + 1))
    store.close()


def wait_for_all(store: Store, jobs: list[WorkloadId]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    final = {State.SUCCEEDED, State.FAILED, State.CANCELLED}
    while time.monotonic() < give_up_s:
        found = [store.workload(job) for job in jobs]
        if all(workload is not None and workload.state in final for workload in found):
            return
        time.sleep(0.05)  # real processes take real time
