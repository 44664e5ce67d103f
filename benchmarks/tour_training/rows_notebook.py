"""Row E12: a notebook that keeps its GPU busy is offered once to become a job, and becomes one."""

from __future__ import annotations

import getpass
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.real_scripts.play import cluster
from benchmarks.tour.laboratory import Kernel, Message, Panel
from benchmarks.tour.machine import Machine
from benchmarks.tour.person import Person
from benchmarks.tour.timeline import Timeline, check
from benchmarks.tour_training.researcher import Researcher
from gpucommons.scheduler.client import SchedulerClient

CONFIG = Path(__file__).with_name("notebook.yaml")
_FILE = "train.ipynb"
#: It could join several workers, and says how far it is as a bar does; where it is a job, it is soon over.
_CELL = """
import os, time

def join():
    import torch.distributed
    torch.distributed.init_process_group()

steps, began = (2, time.time()) if "GPUCOMMONS_JOB_ID" in os.environ else (1000, time.time())
for step in range(1, steps + 1):
    until = time.time() + 0.65
    while time.time() < until:
        sum(range(10_000))
    time.sleep(0.35)
    ran = int(time.time() - began)
    print(f"{step * 100 // steps}%|##| {step}/{steps} [{ran // 60:02}:{ran % 60:02}<...]", flush=True)
"""


def offered(line: Timeline) -> None:
    """E12, on a machine of its own: there a scheduler that is killed would be asked again in five minutes."""
    with (
        tempfile.TemporaryDirectory(prefix="gctour") as folder,
        Machine(cluster(CONFIG, Path(folder)), idle_after_s=3600, warn_after_s=3000) as machine,
        SchedulerClient(f"unix:{machine.state / 'api.sock'}") as scheduler,
    ):
        person = Person(machine.url, getpass.getuser(), machine.password())
        answer = person.start_server(milli_gpu=500, team="research")
        check(answer.status_code in (201, 202), f"E12: {answer.status_code} {answer.text}")
        person.wait_until_ready(timeout_s=120)
        panel = Panel(person)
        kernel = Kernel(person, _open_notebook(person))
        kernel.run(_CELL, cell="train", wait=False)
        _, told = panel.wait("the offer", lambda message: bool(_offers(message)), timeout_s=300)
        (offer,) = _offers(told)
        check(offer["path"] == _FILE and "done_ms" in offer, f"E12: it offers {offer}")
        _make_it_a_job(line, Researcher(machine, scheduler), offer)
        asked = sum(len(_offers(message)) for _, message in panel.messages)
        check(asked == 1, f"E12: offered {asked} times")
        kernel.interrupt()
        panel.wait(
            "that the offer is over", lambda message: bool(_events(message, "job-offer-over"))
        )
        panel.close()


def _open_notebook(person: Person) -> str:
    """Save it, and open it as a page does; returns its kernel's id."""
    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": "train",
        "source": _CELL,
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    kernelspec = {"name": "python3", "display_name": "Python 3"}
    notebook = {
        "cells": [cell],
        "metadata": {"kernelspec": kernelspec},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    person.lab(
        "PUT",
        f"api/contents/{_FILE}",
        content=json.dumps({"type": "notebook", "content": notebook}),
    )
    opened = {"path": _FILE, "name": _FILE, "type": "notebook", "kernel": {"name": "python3"}}
    return str(person.lab("POST", "api/sessions", json=opened)["kernel"]["id"])


def _make_it_a_job(line: Timeline, person: Researcher, offer: dict[str, Any]) -> None:
    """As *Make It a Job…* fills in the form: so many GPUs, from the first cell, while the kernel goes on."""
    person.folder = person.machine.home()
    gpus = offer["gpus"]
    size = ("--workers", str(gpus), "--gpus", "1", "--launcher", "plain")
    job = person.submit(*size, "--team", "research", "--name", "job", _FILE)
    ended = person.end_of(job.id)
    check(ended.state == "succeeded", f"E12: the job {ended.state}: {ended.ended_text}")
    held = ended.attempts[-1].milli_gpu
    check(held == gpus * 1000, f"E12: it ran on {held} milli-GPU")
    sooner = (offer["here_ms"] - offer["done_ms"]) // 1000
    line.row(
        "E12",
        f"“Make {offer['path']} a job?” On {gpus} GPUs, if {offer['times']:.0f} × as fast, done {sooner} s"
        " sooner; it ran there while the kernel went on, and was offered once",
    )


def _offers(message: Message) -> list[dict[str, Any]]:
    return [data for data in _events(message, "job-offer") if data["is_new"]]


def _events(message: Message, kind: str) -> list[dict[str, Any]]:
    events = message.get("events") if message["type"] == "events" else None
    return [event["data"] for event in events or [] if event["kind"] == kind]
