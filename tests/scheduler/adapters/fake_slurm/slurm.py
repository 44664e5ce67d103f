"""``sbatch``, ``squeue``, ``scancel`` and ``scontrol`` of a Slurm that is one folder: for tests without one.

It starts the scripts that it is given on this machine, hands out the numbers of GPUs that it has, and knows
``singleton``. With a file ``away`` in its folder it answers as a cluster whose controller is down.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

HERE = Path(sys.argv[0]).absolute().parent
GPUS = 4
OVER = {"COMPLETED", "FAILED", "CANCELLED"}


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def read(folder: Path) -> dict:
    job = json.loads((folder / "job.json").read_text())
    if job["state"] == "RUNNING" and not runs(job):
        left = folder / "exit"
        code = left.read_text().strip() if left.exists() else "killed"
        job["state"] = "COMPLETED" if code == "0" else "FAILED"
        write(folder, job)
    return job


def runs(job: dict) -> bool:
    with suppress(OSError):
        state = Path(f"/proc/{job['pid']}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False


def write(folder: Path, job: dict) -> None:
    (folder / "job.part").write_text(json.dumps(job))
    (folder / "job.part").rename(folder / "job.json")


def jobs() -> list[tuple[Path, dict]]:
    found = sorted((HERE / "jobs").iterdir(), key=lambda folder: int(folder.name))
    return [(folder, read(folder)) for folder in found]


def schedule() -> None:
    known = jobs()
    for folder, job in known:
        running = [one for _, one in known if one["state"] == "RUNNING"]
        taken = {gpu for one in running for gpu in one["gpus"]}
        free = [gpu for gpu in range(GPUS) if gpu not in taken]
        if job["state"] != "PENDING" or any(one["name"] == job["name"] for one in running):
            continue
        if job["wants"] > len(free):
            job["reason"] = "Resources"
            write(folder, job)
            continue
        job["gpus"] = free[: job["wants"]]
        env = {"PATH": os.environ["PATH"], "SLURMD_NODENAME": "node-1"}
        if job["gpus"]:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, job["gpus"]))
        out = (folder / "out").open("wb")
        words = ["setsid", "sh", "-c", 'sh "$0/script"; echo $? >"$0/exit"', str(folder)]
        child = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        job |= {"state": "RUNNING", "pid": child.pid, "reason": "None"}
        child.returncode = 0
        write(folder, job)


def sbatch(words: list[str]) -> None:
    asked = dict(word.removeprefix("--").partition("=")[::2] for word in words)
    if asked.get("partition") == "nowhere":
        sys.exit("sbatch: error: Batch job submission failed: Invalid partition name specified")
    number = len(list((HERE / "jobs").iterdir())) + 1
    folder = HERE / "jobs" / str(number)
    folder.mkdir()
    (folder / "script").write_text(sys.stdin.read())
    gpus = int(asked.get("gres", "gpu:0").rpartition(":")[2])
    job = {
        "name": asked["job-name"],
        "state": "PENDING",
        "reason": "None",
        "wants": gpus,
        "gpus": [],
    }
    write(folder, job)
    schedule()
    say(str(number))


def squeue(_words: list[str]) -> None:
    schedule()
    for folder, job in jobs():
        say("|".join((folder.name, job["name"], job["state"], job["reason"])))


def scontrol(_words: list[str]) -> None:
    used = sum(len(job["gpus"]) for _, job in jobs() if job["state"] == "RUNNING")
    gres = f"Gres=gpu:sim:{GPUS} GresUsed=gpu:sim:{used}(IDX:0-3)"
    say(f"NodeName=node-1 {gres} State=MIXED Partitions=gpu")


def scancel(words: list[str]) -> None:
    folder = HERE / "jobs" / words[-1]
    job = read(folder)
    if job["state"] == "RUNNING":
        os.killpg(job["pid"], signal.SIGKILL if "--signal=KILL" in words else signal.SIGTERM)
    elif job["state"] not in OVER:
        write(folder, {**job, "state": "CANCELLED"})


if (HERE / "away").exists():
    sys.exit("error: Unable to contact slurm controller (connect failure)")
with (HERE / "lock").open("w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    {"sbatch": sbatch, "squeue": squeue, "scontrol": scontrol, "scancel": scancel}[
        Path(sys.argv[0]).name
    ](sys.argv[1:])
