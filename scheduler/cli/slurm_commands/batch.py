"""From a batch script to a job: pure, so that every line of it can be tried without a scheduler."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from gpucommons.scheduler.cli.slurm_commands import quantities
from gpucommons.scheduler.cli.slurm_commands.options import REFUSED, REFUSED_WITH_VALUE, said
from gpucommons.scheduler.client.submission import FileJob, default_name
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.jobs.jobs import ORIGIN_LABEL

#: Of an array, each of whose tasks waits for the one of its index.
AFTER_EACH = "after_each"
#: In the job's folder: the script, and what stands in for Slurm's programs.
FOLDER = "gpucommons-slurm"
ORIGIN = "sbatch"
_GRES = re.compile(r"gpu(?::(?P<kind>[A-Za-z][\w.-]*))?(?::(?P<count>\d{1,6}))?(?:\(.*\))?")
_GPUS = re.compile(r"(?:(?P<kind>[A-Za-z][\w.-]*):)?(?P<count>\d{1,6})")
_SIGNAL = re.compile(r"(?:[BR]{1,2}:)?(?:SIG)?(?P<name>[A-Z0-9]+)(?:@\d+)?")
_PRIORITIES = ("low", "normal", "high")
_DEFAULT_MIB = 1024
_ARRAY_NAME_CHARACTERS = 36
_SINGLETON = "singleton"
#: By Slurm's words for what a job waits for.
_WAITS = {
    "afterok": "after",
    "afterany": "after_any",
    "afternotok": "after_failed",
    "aftercorr": AFTER_EACH,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """What is to run, with an interpreter in its first line."""

    text: str
    #: Where it lies, without links in between; None where it was written on the command line.
    path: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchJob:
    """What is submitted for one script: once, or once for each index of its array."""

    job: FileJob
    #: Fields of a job's request, and of its one role.
    options: Mapping[str, object]
    role: Mapping[str, object]
    #: A kind of GPU as the script writes it, to be found among the pools'.
    gpu_kind: str = ""
    #: Empty where it is no array.
    indices: tuple[int, ...] = ()
    #: Of an array; None = as many as there are.
    at_once: int | None = None
    #: The array whose task of the same index each of its tasks waits for.
    after_each: str = ""
    #: What it waits for, by the field of a request: jobs and arrays.
    waits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: It also waits for all of its name that its owner has.
    is_singleton: bool = False


def batch_job(
    script: Script,
    arguments: Iterable[str],
    options: dict[str, object],
    *,
    folder: Path,
    now_ms: int,
) -> BatchJob:
    """Read what a script asks for.

    Parameters
    ----------
    script
        What is to run.
    options
        Of its lines and of the command line, by name.
    folder
        What goes along, unless ``--chdir`` names another.

    Raises
    ------
    BadRequest
        For what cannot be done here.
    """
    tasks = _tasks(options)
    texts = {name: str(value) for name, value in options.items()}
    gpus, kind = _gpus(texts, tasks)
    indices = quantities.indices(texts["array"]) if "array" in texts else ()
    job = _file_job(script, arguments, root=(folder / texts.get("chdir", ".")).resolve())
    name = default_name(_name(script, texts).replace(".", "-"))
    role = _role(texts, gpus, tasks)
    fields = _fields(texts, now_ms)
    told = {
        "SLURM_JOB_NAME": texts.get("job_name") or (script.path.name if script.path else "wrap")
    }
    fields["env"] = {**told, **_told(texts, role, tasks), **_of_array(indices), **_exported(texts)}
    if indices:
        # Room for the array's own number: its tasks are called by all of its name.
        name = name[:_ARRAY_NAME_CHARACTERS].rstrip("-")
    waits, each, is_singleton = _dependency(texts.get("dependency", ""), indices)
    return BatchJob(
        job=job,
        options={"name": name, **fields},
        role=role,
        gpu_kind=kind,
        indices=indices,
        at_once=quantities.at_once(texts["array"]) if indices else None,
        waits=waits,
        is_singleton=is_singleton,
        after_each=each,
    )


def _file_job(script: Script, arguments: Iterable[str], *, root: Path) -> FileJob:
    """The script in its folder; beside it where it lies elsewhere."""
    interpreter = shlex.split(script.text.splitlines()[0].removeprefix("#!"))
    if not interpreter:
        raise BadRequest("The first line of the script names no program behind #!.")
    inside = script.path is not None and script.path.is_relative_to(root)
    place = str(script.path.relative_to(root)) if script.path and inside else f"{FOLDER}/script"
    return FileJob(
        root=root,
        command=("sh", f"{FOLDER}/run", *interpreter, place, *arguments),
        beside=_programs() if inside else {**_programs(), place: script.text.encode()},
    )


def _name(script: Script, texts: Mapping[str, str]) -> str:
    return texts.get("job_name", script.path.stem if script.path else "wrap")


def _tasks(options: dict[str, object]) -> int:
    """How many tasks its ``srun`` may start, all of them on one node."""
    for option, instead in said(options, REFUSED | REFUSED_WITH_VALUE).items():
        raise BadRequest(f"{option} is not done here: {instead}.")
    nodes, tasks, each = (
        int(str(options.get(name, 1))) for name in ("nodes", "ntasks", "ntasks_per_node")
    )
    if nodes != 1:
        message = (
            f"--nodes={nodes}: a batch script runs on one node here, with as many tasks as --ntasks says."
            " Over several nodes submit the command that its srun starts: gpucommons submit --workers"
            f" {nodes} -- COMMAND (--launcher torchrun for torch.distributed)."
        )
        raise BadRequest(message)
    return max(tasks, each)


def _told(texts: Mapping[str, str], role: Mapping[str, object], tasks: int) -> dict[str, str]:
    """What Slurm tells a script of what was asked for."""
    asked = {
        "SLURM_CPUS_PER_TASK": texts.get("cpus_per_task"),
        "SLURM_GPUS_PER_TASK": texts.get("gpus_per_task", "").rpartition(":")[2],
        "SLURM_JOB_PARTITION": texts.get("partition"),
        "SLURM_JOB_ACCOUNT": texts.get("account"),
        "SLURM_NTASKS": str(tasks) if tasks > 1 else "",
        "SLURM_MEM_PER_NODE": str(role["memory_mib"]),
        "SLURM_GPUS_ON_NODE": str(int(str(role["milli_gpu"])) // 1000 or ""),
    }
    return {name: value for name, value in asked.items() if value}


def _of_array(indices: tuple[int, ...]) -> dict[str, str]:
    if not indices:
        return {}
    told = {"COUNT": len(indices), "MIN": indices[0], "MAX": indices[-1]}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in told.items()}


def _programs() -> dict[str, bytes]:
    """By their place in the job's folder."""
    here = files(__package__) / "job_files"
    return {f"{FOLDER}/{one}": (here / one).read_bytes() for one in ("run", "srun", "scontrol")}


def _fields(texts: Mapping[str, str], now_ms: int) -> dict[str, object]:
    found: dict[str, object] = {
        "labels": {ORIGIN_LABEL: ORIGIN},
        "max_run_s": quantities.seconds(texts["time"]) if "time" in texts else None,
        "pools": texts["partition"].split(",") if "partition" in texts else None,
        "team": texts.get("account"),
        "priority": _priority(texts["qos"]) if "qos" in texts else None,
        "not_before_ms": quantities.moment_ms(texts["begin"], now_ms) if "begin" in texts else None,
        "notice_signal": _signal(texts["signal"]) if "signal" in texts else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _role(texts: Mapping[str, str], gpus: int, tasks: int) -> dict[str, object]:
    cpus = int(texts.get("cpus_per_task", "1")) * tasks
    if "cpus_per_gpu" in texts and gpus:
        cpus = gpus * _whole("cpus_per_gpu", texts)
    memory_mib = _DEFAULT_MIB
    for option, times in (("mem", 1), ("mem_per_cpu", cpus), ("mem_per_gpu", gpus)):
        if option in texts:
            memory_mib = quantities.mebibytes(texts[option]) * max(1, times)
    return {
        "milli_gpu": gpus * 1000,
        "memory_mib": memory_mib,
        **({"cpu_milli": cpus * 1000} if "cpus_per_task" in texts or cpus > 1 else {}),
    }


def _whole(name: str, texts: Mapping[str, str]) -> int:
    found = _GPUS.fullmatch(texts[name])
    if found is None or found["kind"] or not int(found["count"]):
        message = f"--{name.replace('_', '-')}={texts[name]}: write a number from 1 on."
        raise BadRequest(message)
    return int(found["count"])


def _gpus(texts: Mapping[str, str], tasks: int) -> tuple[int, str]:
    """How many GPUs, and of which kind; "" for any."""
    if "gres" in texts:
        found = _GRES.fullmatch(texts["gres"])
        if found is None:
            message = (
                f"--gres={texts['gres']}: only GPUs are known here, as in gpu:2 or gpu:a100:1. A part"
                " of one: gpucommons submit --gpus ½."
            )
            raise BadRequest(message)
        return int(found["count"] or 1), found["kind"] or ""
    for option in ("gpus", "gpus_per_node", "gpus_per_task"):
        if option in texts:
            found = _GPUS.fullmatch(texts[option])
            if found is None:
                message = f"--{option.replace('_', '-')}={texts[option]}: write 2 or a100:2."
                raise BadRequest(message)
            times = tasks if option == "gpus_per_task" else 1
            return int(found["count"]) * times, found["kind"] or ""
    return 0, ""


def _priority(text: str) -> str | None:
    if text in _PRIORITIES:
        return text
    message = f"--qos={text} is not known here: write {', '.join(_PRIORITIES[:2])} or high."
    raise BadRequest(message)


def _dependency(
    text: str, indices: tuple[int, ...]
) -> tuple[dict[str, tuple[str, ...]], str, bool]:
    """What it waits for, the array whose tasks its own ones wait for, and whether it is a singleton."""
    waits, is_singleton = _waits(text) if text else ({}, False)
    if is_singleton and indices:
        message = "--dependency=singleton with --array: write a limit of one, as in --array=0-9%1."
        raise BadRequest(message)
    if len(each := waits.pop(AFTER_EACH, ())) > 1 or (each and not indices):
        message = (
            f"--dependency={text}: with aftercorr each task of an array waits for that of its index in one"
            " other: give it an --array, or wait with afterok."
        )
        raise BadRequest(message)
    return waits, "".join(each), is_singleton


def _waits(text: str) -> tuple[dict[str, tuple[str, ...]], bool]:
    """``afterok:a:b,afterany:c``: all of it must be so; and whether ``singleton`` is among it."""
    found: dict[str, tuple[str, ...]] = {}
    parts = text.split(",")
    for part in parts:
        if part == _SINGLETON:
            continue
        kind, *jobs = part.split(":")
        if kind not in _WAITS or not all(jobs) or not jobs or "?" in part or "+" in part:
            message = (
                f"--dependency={text}: here a job waits for others that succeed, are over, or fail. Write"
                " afterok:JOB[:JOB …], afterany:JOB, afternotok:JOB or singleton, with commas where all"
                " must be so."
            )
            raise BadRequest(message)
        found[_WAITS[kind]] = (*found.get(_WAITS[kind], ()), *jobs)
    return found, _SINGLETON in parts


def _signal(text: str) -> str | None:
    """SIGTERM comes before every end anyway."""
    found = _SIGNAL.fullmatch(text.upper())
    if found is not None and found["name"] in ("USR1", "10"):
        return "SIGUSR1"
    if found is not None and found["name"] in ("TERM", "15"):
        return None
    message = (
        f"--signal={text}: USR1 can be sent when a stop is announced, and TERM follows always."
    )
    raise BadRequest(message)


def _exported(texts: Mapping[str, str]) -> dict[str, str]:
    """The variables that are given a value; names alone are of this terminal, which stays here."""
    words = texts.get("export", "").split(",")
    parts = (part.partition("=") for part in words if part not in ("", "ALL", "NONE", "NIL"))
    found = {}
    for name, equals, value in parts:
        if not equals:
            message = (
                f"--export={name}: this terminal's variables do not travel with a job. Write"
                f" --export={name}=VALUE."
            )
            raise BadRequest(message)
        found[name] = value
    return found
