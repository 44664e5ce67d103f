"""Whether pages stay quick while 500 retrainings wait.

``python -m benchmarks.sweeps.retrainings [--retrainings 500] [--tries 5] [--json OUT]``. Ten people of one team
have as many schedules as they may, and each schedule starts a run while all GPUs are busy. Counted:

* ``start_s``, ``start_cpu_s``: the scheduler's pass that submits all of them at once, with its commits to SQLite.
* ``cycle_ms``: the longest of the next cycles: it decides about all of them, and tells each a reason.
* ``rows``: for each answer that pages of Lab, CLI and hub are drawn from, as one of the ten and as an
  admin, who sees all: median and longest time in milliseconds of one answer, the processor time of all answers
  (``cpu_ms``; what other programs do changes it little), and their size. Lists are read to their end;
  ``answers`` says in how many. They are asked of the REST application in this process: routes, JSON and
  permissions count, the network does not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.results import append
from benchmarks.sweeps.large import CONFIG, GPUS, World
from gpucommons.scheduler import models
from gpucommons.scheduler.api.app import create_app
from gpucommons.scheduler.api.authentication import Credentials
from gpucommons.scheduler.background_tasks.schedules import Schedules
from gpucommons.scheduler.core.model.types import State, UserName
from gpucommons.scheduler.principal import Identity, PrincipalKind, read_rights
from gpucommons.scheduler.service.administration import settings
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.service.schedules import schedules

PEOPLE = tuple(f"user-{number}" for number in range(10))
ADMIN = "root"
#: One may do nothing but take up the lead again, after so many submits.
_MOST_CYCLES = 3


class _ByName:
    """Whoever names somebody is that one: who may ask is not what is measured."""

    async def identify(self, credentials: Credentials) -> Identity | None:
        name = credentials.token or ADMIN
        verb = "admin" if name == ADMIN else "submit"
        return Identity(
            name=UserName(name),
            kind=PrincipalKind.USER,
            groups=frozenset(),
            rights=read_rights([f"custom:gpucommons:{verb}"]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Started:
    """What it took to start them."""

    start_s: float
    start_cpu_s: float
    cycle_ms: float


def _request(name: str, gpus: int) -> models.JobRequest:
    role = models.RoleRequest(milli_gpu=gpus * 1000, command=["python", "train.py"])
    return models.JobRequest(name=name, roles=[role])


def _with_people(world: World) -> None:
    config = models.ConfigModel.model_validate(
        {**CONFIG, "teams": [{**CONFIG["teams"][0], "members": list(PEOPLE)}]}
    )
    settings.put_config(world.service, world.who(ADMIN, "admin"), config)
    world.loop.cycle()
    jobs.submit(world.service, world.who(PEOPLE[0], "submit"), _request("busy", GPUS), key="busy")
    world.loop.cycle()
    world.loop.cycle()


def _wait(world: World, retrainings: int) -> _Started:
    """All of them are in line."""
    for number in range(retrainings):
        who = world.who(PEOPLE[number % len(PEOPLE)], "submit")
        name = f"retrain-{number}"
        asked = models.ScheduleRequest(schedule="@yearly", job=_request(name, 1))
        schedules.put_schedule(world.service, who, who.name, name, asked)
        schedules.run_schedule(world.service, who, who.name, name)
    passes = Schedules(world.service, epoch=lambda: world.loop.epoch)
    began, cpu_began = time.perf_counter(), time.process_time()
    passes.step()
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    cycles_ms, waiting = [], 0
    for _ in range(_MOST_CYCLES):
        began = time.perf_counter()
        world.loop.cycle()
        cycles_ms.append(1000 * (time.perf_counter() - began))
        there = world.loop.cluster.workloads.values()
        waiting = sum(one.state is State.QUEUED for one in there)
    if waiting != retrainings:
        raise SystemExit(f"{waiting} of {retrainings} retrainings wait")
    return _Started(
        start_s=round(took_s, 2), start_cpu_s=round(cpu_s, 2), cycle_ms=round(max(cycles_ms), 1)
    )


def _asked(who: str, job: str) -> Iterator[str]:
    """What pages ask for."""
    yield from ("/v1/jobs?live=true", "/v1/jobs", "/v1/schedules", "/v1/sweeps", "/v1/pipelines")
    if who != ADMIN:
        yield f"/v1/jobs?live=true&owner={who}"
    yield f"/v1/schedules/{PEOPLE[0]}/retrain-0"
    yield from (f"/v1/jobs/{job}", f"/v1/jobs/{job}/why")
    yield from ("/v1/pools", "/v1/nodes", "/v1/teams", "/v1/offers", "/v1/leases")
    yield "/v1/calibration"
    if who == ADMIN:
        yield from ("/v1/utilisation", "/v1/growth", "/v1/events?newest=100")


async def _whole(client: httpx.AsyncClient, path: str) -> tuple[list[float], int]:
    """What each answer took, with all pages of a list, in milliseconds; and of how many bytes they are together."""
    took_ms: list[float] = []
    size, cursor = 0, None
    where, _, query = path.partition("?")
    while not took_ms or cursor is not None:
        params = httpx.QueryParams(query)
        if cursor is not None:
            params = params.set("cursor", cursor)
        began = time.perf_counter()
        answer = await client.get(where, params=params)
        took_ms.append(1000 * (time.perf_counter() - began))
        if answer.status_code != httpx.codes.OK:
            raise SystemExit(f"{path}: {answer.status_code} {answer.text}")
        size += len(answer.content)
        # Events go on for ever: their cursor is where the next ones begin.
        cursor = None if where == "/v1/events" else answer.json().get("cursor")
    return took_ms, size


async def _row(client: httpx.AsyncClient, path: str, tries: int) -> dict[str, object]:
    took_ms, cpu_ms, answers, size = [], [], 0, 0
    # Who asks again for what computes for long rests first, so that others have their turn.
    for _ in range(1 if path.endswith("/why") else tries):
        began = time.process_time()
        each_ms, size = await _whole(client, path)
        cpu_ms.append(1000 * (time.process_time() - began))
        answers = len(each_ms)
        took_ms += each_ms
    return {
        "answers": answers,
        "kib": size >> 10,
        "median_ms": round(statistics.median(took_ms), 1),
        "longest_ms": round(max(took_ms), 1),
        "cpu_ms": round(statistics.median(cpu_ms), 1),
    }


async def _rows(world: World, tries: int) -> list[dict[str, object]]:
    transport = httpx.ASGITransport(create_app(world.service, _ByName()))
    job = next(
        one.workload_id
        for one in world.loop.cluster.workloads.values()
        if one.state is State.QUEUED and one.spec.owner == PEOPLE[0]
    )
    rows: list[dict[str, object]] = []
    for who in (PEOPLE[0], ADMIN):
        headers = {"Authorization": f"token {who}"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://api", headers=headers, timeout=60
        ) as client:
            for path in _asked(who, job):
                asked = {
                    "who": "admin" if who == ADMIN else "user",
                    "asked": path.replace(job, "JOB"),
                }
                rows.append(asked | await _row(client, path, tries))
    return rows


def measured(retrainings: int, tries: int, folder: Path) -> dict[str, object]:
    """One line."""
    world = World(folder)
    _with_people(world)
    started = _wait(world, retrainings)
    rows = asyncio.run(_rows(world, tries))
    return {
        "benchmark": "retrainings",
        "retrainings": retrainings,
        "start_s": started.start_s,
        "start_cpu_s": started.start_cpu_s,
        "cycle_ms": started.cycle_ms,
        "longest_ms": max(float(str(row["longest_ms"])) for row in rows),
        "longest_cpu_ms": max(float(str(row["cpu_ms"])) for row in rows),
        "load": round(os.getloadavg()[0], 1),
        "rows": rows,
    }


def main() -> None:
    """Measure; print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweeps.retrainings")
    parser.add_argument("--retrainings", type=int, default=500)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    most = len(PEOPLE) * schedules.MAX_SCHEDULES
    if not 1 <= arguments.retrainings <= most:
        parser.error(f"--retrainings is 1 to {most}: so many schedules may ten people have")
    with tempfile.TemporaryDirectory(prefix="gcretrain") as folder:
        line = measured(arguments.retrainings, arguments.tries, Path(folder))
    print(json.dumps(line))
    append(arguments.json, line)


if __name__ == "__main__":
    main()
