"""Airflow itself, started by ``airflow standalone``: tasks that are jobs of a real scheduler."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import tomllib
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from frameworks.own_scheduler import own_scheduler
from free_ports import free_port

from benchmarks.real_scripts import environment
from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.scheduler.cli.connect import find
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.models import JobView

FOUND = environment.find(environment.AIRFLOW)
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(500)]

CONFIG = """
pools: [{name: train, gpu_kind: A100-40, notice_s: 1, grace_s: 20, hibernation: "off"}]
teams:
- {name: vision, members: [ann], quotas: {train: {}}}
"""
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PATIENCE_S = 180.0
#: The worker of a try that waits ends some seconds after it has handed the try over. Where its trigger
#: fires before Airflow has seen that, Airflow takes that end for the end of what comes after it, and counts
#: a failed try: so a job ends once Airflow has seen it.
TRAIN = """
import sys, time
from pathlib import Path
from gpucommons.scheduler import training
mode, seen, which = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
print("hello from the job", flush=True)
training.current().report(step=1, loss=0.25)
while seen.is_dir() and not (seen / which).exists():
    time.sleep(0.1)
if mode == "badly":
    raise ValueError("no such data")
if mode == "long":
    time.sleep(600)
open("model.txt", "w").write("weights")
"""
#: A worker of Airflow has ended, and its scheduler knows.
WORKER_ENDED = re.compile(
    r"Received executor event with state \w+ for task instance TaskInstanceKey\("
    r"dag_id='(\w+)', task_id='train', run_id='(\w+)', try_number=(\d+)"
)


class Site:
    """An Airflow beside a scheduler."""

    def __init__(self, folder: Path, scheduler: dict[str, str]) -> None:
        assert FOUND is not None
        self.folder, self.of_scheduler = folder, scheduler
        self.dags, self.port = folder / "dags", free_port()
        (self.dags / "train").mkdir(parents=True)
        (self.dags / "train" / "train.py").write_text(TRAIN)
        for name in ("airflow_dags.py", "airflow_tries.py"):
            shutil.copy(HERE / "dags" / name, self.dags / name)
        (self.dags / ".airflowignore").write_text("airflow_tries.py\ntrain/\n")
        socket = f"unix:{scheduler['GPUCOMMONS_STATE']}/api.sock"
        connection = {"conn_type": "gpucommons", "host": socket}
        away = {"conn_type": "gpucommons", "host": f"unix:{folder}/nobody"}
        here = f"http://127.0.0.1:{self.port}"
        kept = {name: one for name, one in os.environ.items() if "AIRFLOW" not in name}
        self.environ = {
            **kept,
            "HOME": str(folder), "AIRFLOW_HOME": str(folder / "airflow"),
            "PATH": f"{FOUND / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'build' / 'editable'}{os.pathsep}{_installed(folder)}",
            "AIRFLOW_CONN_GPUCOMMONS_DEFAULT": json.dumps(connection),
            "AIRFLOW_CONN_EMPTY": '{"conn_type": "gpucommons"}',
            "AIRFLOW_CONN_NOBODY": json.dumps(away),
            "AIRFLOW__API__BASE_URL": here,
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{here}/execution/",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            # What a killed scheduler had running is taken up once it has been silent for half a minute, as
            # seen at the start of another and then every five minutes: one that is back at once missed it.
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
            # Each part ends at its first "database is locked", after five seconds.
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow/airflow.db?timeout=60",
        }  # fmt: skip

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        assert FOUND is not None
        return subprocess.run(
            [FOUND / "bin" / words[0], *words[1:]],
            env=self.environ, cwd=self.dags, capture_output=True, text=True, check=False,
        )  # fmt: skip

    @contextmanager
    def standalone(self) -> Iterator[Airflow]:
        """Ends as if the machine had lost its power."""
        assert FOUND is not None
        written = self.folder / "standalone.log"
        seen = self.dags / "seen"
        seen.mkdir(exist_ok=True)
        with written.open("a") as log:
            started = subprocess.Popen(
                [FOUND / "bin" / "airflow", "standalone"],
                env=self.environ, cwd=self.folder, stdout=log, stderr=log,
            )  # fmt: skip
        airflow = None
        try:
            airflow = Airflow(f"http://127.0.0.1:{self.port}", started, written, seen)
            yield airflow
        finally:
            _kill(started.pid)
            started.wait(30)
            if airflow is not None:
                airflow.http.close()

    def jobs(self, task: str) -> list[JobView]:
        """Oldest first."""
        url, token = find(Namespace(url=None, state=None), self.of_scheduler)
        with SchedulerClient(url, token=token) as scheduler:
            found = scheduler.send(calls.jobs()).jobs[::-1]
        return [
            one for one in found
            if one.request and one.request.labels.get("airflow-task") == task
        ]  # fmt: skip


def _installed(folder: Path) -> Path:
    """What pip writes of us, for the entry points that ``pyproject.toml`` names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [
        f"[{group}]\n{name} = {of}\n"
        for group, names in project["entry-points"].items()
        for name, of in names.items()
    ]
    record = folder / "installed" / "gpucommons-0.1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: gpucommons\nVersion: 0.1.0\n")
    (record / "entry_points.txt").write_text("".join(line for line in lines if "airflow" in line))
    return record.parent


def _kill(pid: int) -> None:
    """All at once, also those whose parent is gone by then."""
    above = psutil.Process(pid)
    for one in [above, *above.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            one.kill()


class Airflow:
    """A client of its REST API."""

    def __init__(self, url: str, process: subprocess.Popen[bytes], log: Path, seen: Path) -> None:
        self.process, self.log, self.seen = process, log, seen
        self.until(lambda: _answers(url))
        token = httpx.get(f"{url}/auth/token", timeout=PATIENCE_S).json()["access_token"]
        self.http = httpx.Client(
            base_url=f"{url}/api/v2",
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE_S,
        )

    def until(self, is_so: Callable[[], object]) -> None:
        ends = time.monotonic() + PATIENCE_S
        while not is_so():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < ends, self.said()
            self.let_jobs_end()
            time.sleep(0.3)

    def let_jobs_end(self) -> None:
        """Those of tries whose worker is known to have ended; a job may be an earlier try's."""
        for dag, run, number in WORKER_ENDED.findall(self.log.read_text()):
            for one in range(1, int(number) + 1):
                (self.seen / f"{dag}-{run}-{one}").touch()

    def said(self) -> str:
        """The last of its parts but for what they were asked."""
        lines = self.log.read_text().splitlines(keepends=True)
        return "".join(line for line in lines if "http.access" not in line)[-5000:]

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        answer = self.http.request(method, path, json=body, params=query)
        assert answer.is_success, answer.text
        return answer.json()

    def start(self, dag: str, mode: str) -> Run:
        self.until(lambda: self.http.get(f"/dags/{dag}").is_success)
        body = {"dag_run_id": mode, "logical_date": None, "conf": {"mode": mode}}
        self.ask("POST", f"/dags/{dag}/dagRuns", body)
        return Run(self, dag, mode)


class Run:
    """One run of a DAG."""

    def __init__(self, airflow: Airflow, dag: str, run: str) -> None:
        self.airflow, self.task = airflow, f"{dag} / {run} / train"
        self.path = f"/dags/{dag}/dagRuns/{run}"

    def state(self, task: str = "train") -> str:
        return str(self.airflow.ask("GET", f"{self.path}/taskInstances/{task}")["state"])

    def ends(self) -> str:
        self.airflow.until(
            lambda: self.airflow.ask("GET", self.path)["state"] in ("success", "failed")
        )
        return str(self.airflow.ask("GET", self.path)["state"])

    def returned(self, task: str) -> Any:
        place = f"{self.path}/taskInstances/{task}/xcomEntries/return_value"
        return self.airflow.ask("GET", place, deserialize=True)["value"]

    def log(self, number: int = 1) -> str:
        place = f"{self.path}/taskInstances/train/logs/{number}"
        answer = self.airflow.http.get(place, params={"full_content": True})
        return answer.text if answer.is_success else ""  # not tried yet


def _answers(url: str) -> bool:
    try:
        return httpx.get(
            f"{url}/api/v2/monitor/health", timeout=60, verify=trusted_at(url)
        ).is_success
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    if FOUND is None:
        pytest.fail(environment.HOW_TO_GET)
    with (
        tempfile.TemporaryDirectory(prefix="gc", ignore_cleanup_errors=True) as folder,
        own_scheduler(Path(folder), CONFIG) as environ,
    ):
        yield Site(Path(folder), environ)


@pytest.fixture(scope="module")
def tried(site: Site) -> subprocess.CompletedProcess[str]:
    migrated = site.call("airflow", "db", "migrate")
    assert migrated.returncode == 0, migrated.stderr
    done = site.call("python", "airflow_tries.py")
    assert done.returncode == 0, done.stderr
    return done


def test_a_dag_is_tried_without_a_server(tried: subprocess.CompletedProcess[str]) -> None:
    assert "hello from the job" in tried.stdout
    assert "['model.txt'] {'loss': 0.25}" in tried.stdout


def test_a_try_gets_the_job_whose_end_nobody_told_and_else_a_new_one(
    tried: subprocess.CompletedProcess[str],
) -> None:
    found = json.loads(tried.stderr.splitlines()[-1])
    assert found["again"] == found["changed"] == found["first"]
    assert found["after_cancel"] != found["first"]
    assert found["too_late"] == {
        "problem": "The task's execution_timeout is over: its job is cancelled."
    }
    assert "cancelled: Cancelled by " in found["cancelled"]
    assert found["not_told_yet"] == found["failing"]
    assert found["failed"].endswith(
        "failed: It ended with exit status 3; its log says: RuntimeError: no such data"
    )
    assert found["retried"] not in (found["failing"], found["first"])
    assert found["of_key"] == "anns"
    assert found["serialized"] == {
        "conn_id": "gpucommons_default",
        "job_id": "j",
        "until_s": None,
    }
    assert (found["away"], found["tested"]) == ("answered", [True, False])
    assert found["form"] == {"host": "Address", "password": "Token"}
    for said, sentence in zip(
        found["refused"],
        (
            "AirflowFailException: 'much' is not a number of GPUs",
            "AirflowFailException: There is no file",
            "must be 'low', 'normal' or 'high'",
            "AirflowFailException: Name one thing to run",
            "AirflowFailException: The connection empty has no address",
            "AirflowException: The scheduler at",
        ),
        strict=True,
    ):
        assert sentence in said


def test_airflow_that_is_killed_goes_on_with_the_same_job_and_tasks_end_as_their_jobs(
    site: Site,
) -> None:
    with site.standalone() as airflow:
        cut = airflow.start("cut", "well")
        airflow.until((site.dags / "reached").exists)
        assert len(site.jobs(cut.task)) == 1
    with site.standalone() as airflow:
        runs = {mode: airflow.start("story", mode) for mode in ("well", "badly", "long")}
        cut = Run(airflow, "cut", "well")

        long = runs["long"]
        airflow.until(lambda: "hello from the job" in long.log())
        airflow.ask("PATCH", f"{long.path}/taskInstances/train", {"new_state": "failed"})
        airflow.until(lambda: [one.state for one in site.jobs(long.task)] == ["cancelled"])

        assert runs["well"].ends() == "success"
        assert runs["well"].returned("use") == "['model.txt'] {'loss': 0.25}"
        assert "hello from the job" in runs["well"].log()
        assert len(site.jobs(runs["well"].task)) == 1

        assert runs["badly"].ends() == "failed"
        assert "ValueError: no such data" in runs["badly"].log()
        assert [one.state for one in site.jobs(runs["badly"].task)] == ["failed", "failed"]

        assert cut.ends() == "success"
        assert len(site.jobs(cut.task)) == 1
        assert cut.returned("train")["files"] == ["model.txt"]
