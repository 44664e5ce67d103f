"""``gpucommons probe``: a short job measures a pool's GPUs and links, for plans to reckon with."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import uuid
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.jobs.logs import follow, log_so_far
from gpucommons.scheduler.cli.plans.probe_program import MARK
from gpucommons.scheduler.cli.present import printable
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.client.submission import FileJob, request_for_file
from gpucommons.scheduler.errors import BadRequest, Forbidden
from gpucommons.scheduler.models.text.field_errors import first_mistake

_PROGRAM = "probe_program.py"
_MOST_BYTES = 1 << 20


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """The grammar of this command."""
    command = commands.add_parser(
        "probe",
        parents=[shared],
        help="measure a pool's GPUs and links by a short job, for plans (admins)",
        description="Runs one to two minutes on all GPUs of as many nodes as you name, and keeps what"
        " it finds with the pool. With two nodes or more, plans may cross nodes from then on. It waits"
        " in line as any job; its environment needs torch.",
    )
    command.add_argument("pool")
    command.add_argument("--nodes", type=int, default=2, help="default: 2, or 1 where there is one")
    command.add_argument("--team", help="who pays; default: your only team")
    command.add_argument("--env", dest="environment", help="environment or image with torch")
    how = command.add_mutually_exclusive_group()
    how.add_argument("--job", help="keep what this probe found, which ran already")
    how.add_argument("--detach", action="store_true", help="submit it, and keep it later by --job")
    command.set_defaults(run=probe)


def probe(arguments: argparse.Namespace) -> int:
    """Run it, and keep what it found."""
    with connect(arguments) as scheduler:
        me = scheduler.send(calls.whoami())
        if not me.admin:
            raise Forbidden("Only admins can keep what a probe found: it changes everyone's plans.")
        pool = _pool(scheduler, arguments.pool)
        ref = arguments.job or _submitted(scheduler, arguments)
        if arguments.detach:
            return 0
        if arguments.job is None and (code := follow(scheduler, ref, rank=0)):
            return code
        job = scheduler.send(calls.job(ref))
        if job.owner != me.name:
            raise BadRequest(f"{job.name} is of {job.owner}: keep what your own probe found.")
        if job.pools != [pool.name]:
            where = ", ".join(job.pools)
            raise BadRequest(f"{job.name} is of pool {where}: only a probe of {pool.name} is kept.")
        if job.state != "succeeded":
            raise BadRequest(f"{job.name} is {job.state}: only a probe that succeeded is kept.")
        found = {
            "at_ms": job.ended_ms,
            "gpu_kind": pool.gpu_kind,
            "drivers": job.attempts[-1].drivers,
            **_found(log_so_far(scheduler, ref)),
        }
        return _keep(scheduler, pool, found)


def _pool(scheduler: SchedulerClient, name: str) -> models.PoolView:
    pools = {one.name: one for one in scheduler.send(calls.pools()).pools}
    if name not in pools:
        raise BadRequest(f"There is no pool {name!r}. Pools: {', '.join(sorted(pools))}.")
    if not pools[name].total_milli_gpu:
        raise BadRequest(f"Pool {name} has no GPUs now: there is nothing to measure.")
    return pools[name]


def _submitted(scheduler: SchedulerClient, arguments: argparse.Namespace) -> str:
    sizes = [
        len(node.devices)
        for node in scheduler.send(calls.nodes()).nodes
        if node.pool == arguments.pool and node.devices
    ]
    nodes = min(arguments.nodes, sum(size == max(sizes) for size in sizes))
    if nodes < 1:
        raise BadRequest("--nodes: name at least one.")
    program = resources.files(__package__).joinpath(_PROGRAM).read_bytes()
    options: dict[str, Any] = {
        "name": "probe",
        "pools": [arguments.pool],
        "launcher": "torchrun",
        **({"team": arguments.team} if arguments.team else {}),
        **({"environment": arguments.environment} if arguments.environment else {}),
    }
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / _PROGRAM).write_bytes(program)
        job = FileJob(root=Path(folder), path=_PROGRAM)
        role = {"count": nodes, "milli_gpu": max(sizes) * WHOLE_MILLI_GPU}
        request, packed = request_for_file(job, options, role, max_bytes=_MOST_BYTES)
    if request.snapshot is not None:
        scheduler.send(calls.put_snapshot(request.snapshot, packed.content))
    view = scheduler.send(calls.submit(request, key=str(uuid.uuid4())))
    sys.stderr.write(
        f"{view.name} submitted; gpucommons probe {arguments.pool} --job {view.name} keeps what it"
        " found, should this end before.\n"
    )
    return view.id


def _found(lines: Sequence[str]) -> dict[str, Any]:
    """The last word of the probe."""
    said = [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]
    try:
        found = json.loads(said[-1])
    except (IndexError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise BadRequest("The job's log has no result of a probe. Run gpucommons probe again.")
    return found


def _keep(scheduler: SchedulerClient, pool: models.PoolView, found: dict[str, Any]) -> int:
    """With the pool; on simulated GPUs it is shown and not kept."""
    try:
        measured = models.MeasuredModel.model_validate(found)
    except ValidationError as error:
        raise BadRequest(f"What the probe told cannot be: {first_mistake(error)}") from None
    sys.stdout.write(printable(_words(pool, measured)) + "\n")
    if pool.simulated:
        sys.stdout.write(
            f"Not kept: the GPUs of {pool.name} are simulated, so this is of the machine's processor.\n"
        )
        return 0
    config = scheduler.send(calls.get_config())
    (mine,) = (one for one in config.pools if one.name == pool.name)
    changed = mine.model_copy(update={"measured": _beside(measured, mine.measured)})
    scheduler.send(calls.put_config(models.ConfigModel(pools=[changed])))
    sys.stdout.write(f"Kept: plans on {pool.name} reckon with it for 30 days.\n")
    return 0


def _beside(
    found: models.MeasuredModel, before: models.MeasuredModel | None
) -> models.MeasuredModel:
    """What was found; links between nodes, at which a probe of one node did not look, stay with their date."""
    if before is None or found.between_gb_s or not before.between_gb_s:
        return found
    if (found.gpu_kind, found.drivers) != (before.gpu_kind, before.drivers):
        return found
    return found.model_copy(
        update={
            "between_gb_s": before.between_gb_s,
            "between_us": before.between_us,
            "between_at_ms": before.between_at_ms or before.at_ms,
        }
    )


def _words(pool: models.PoolView, found: models.MeasuredModel) -> str:
    parts = [f"products {found.gemm_tflops:.3g} TFLOP/s"]
    for name, speed, hop in (
        ("inside a node", found.inside_gb_s, found.inside_us),
        ("between nodes", found.between_gb_s, found.between_us),
    ):
        parts.append(f"{name} {speed:.3g} GB/s, {hop:.3g} µs" if speed else f"{name} not measured")
    return f"{pool.name} ({pool.gpu_kind}): {'; '.join(parts)}"
