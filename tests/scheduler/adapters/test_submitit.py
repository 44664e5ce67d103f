"""submitit itself, on a scheduler and processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucommons.scheduler.client import SchedulerClient, calls

submitit = pytest.importorskip("submitit", reason="the package submitit is not installed here")

ROOT = Path(__file__).parents[3]
CONFIG = """
pools: [{name: cpu, notice_s: 5, grace_s: 20, hibernation: "off"}]
teams: [{name: vision, members: [ann], quotas: {cpu: {}}}]
"""
#: A module of the user's, beside what submits.
MODULE = """
import time

import submitit


def add(a, b):
    print("adding", a, b)
    return a + b


def fail():
    raise ValueError("no such data")


class Counting(submitit.helpers.Checkpointable):
    def __init__(self):
        self.seen = []

    def __call__(self, go_on):
        import pathlib
        self.seen.append(len(self.seen))
        pathlib.Path(go_on).parent.joinpath(f"began-{len(self.seen)}").touch()
        while len(self.seen) < 2:
            time.sleep(0.05)
        return self.seen
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder with a scheduler; its user is this account."""
    with tempfile.TemporaryDirectory(prefix="gc") as folder:
        path = Path(folder)
        (path / "config.yaml").write_text(CONFIG)
        environ = {**os.environ, "GPUCOMMONS_STATE": str(path / "state"), "HOME": str(path)}
        command = [str(Path(sys.executable).with_name("gpucommons")), "up", "--no-hub"]
        options = ["--simulate", "1", "--trusted-users", "--config", str(path / "config.yaml")]
        with (path / "up.log").open("w") as log:
            up = subprocess.Popen([*command, *options], env=environ, stdout=log, stderr=log)
        for _ in range(1200):
            if "Ctrl-C stops it" in (path / "up.log").read_text():
                break
            assert up.poll() is None, (path / "up.log").read_text()
            time.sleep(0.05)
        with SchedulerClient(f"unix:{path / 'state' / 'api.sock'}") as client:
            assert client.send(calls.teams()).teams, (
                "said to be running before its teams were known"
            )
        yield path
        up.send_signal(signal.SIGINT)
        up.wait(60)


@pytest.fixture
def executor(place: Path, monkeypatch: pytest.MonkeyPatch) -> submitit.AutoExecutor:
    """As a user makes one. The entry points of our package, whatever release of it is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    about = place / "gpucommons_points-1.dist-info"
    if not about.exists():
        about.mkdir()
        points = project["entry-points"]["submitit"]
        lines = "".join(f"{name} = {value}\n" for name, value in points.items())
        (about / "entry_points.txt").write_text(f"[submitit]\n{lines}")
        (about / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: gpucommons-points\nVersion: 1\n"
        )
        (place / "of_a_user.py").write_text(MODULE)
    for name in [name for name in os.environ if name.startswith("GPUCOMMONS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GPUCOMMONS_STATE", str(place / "state"))
    path = os.pathsep.join(one for one in sys.path if one)
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.chdir(place)
    submitit.core.plugins._get_plugins.cache_clear()
    submitit.core.plugins.get_executors.cache_clear()
    made = submitit.AutoExecutor(folder=place / "jobs", cluster="gpucommons")
    made.update_parameters(timeout_min=10, mem_gb=0.5, name="Sum", gpucommons_team="vision")
    return made


def test_a_function_becomes_a_job_and_its_result_comes_back(
    executor: submitit.AutoExecutor,
) -> None:
    from of_a_user import add, fail  # type: ignore[import-not-found] # noqa: PLC0415 - made above

    one, *others = executor.map_array(add, [1, 2, 3], [10, 20, 30])
    failing = executor.submit(fail)
    assert one.result() == 11
    assert [job.result() for job in others] == [22, 33]
    assert one.done()
    assert "adding 1 10" in (one.stdout() or "")
    assert one.get_info()["Name"].startswith("sum-")
    with pytest.raises(submitit.core.utils.FailedJobError, match="no such data"):
        failing.result()
    assert failing.exception() is not None
    one.cancel()  # it is over, and stays so


def test_a_function_that_is_stopped_goes_on_from_its_checkpoint(
    executor: submitit.AutoExecutor, place: Path
) -> None:
    from of_a_user import Counting  # type: ignore[import-not-found] # noqa: PLC0415 - made above

    job = executor.submit(Counting(), str(place / "go-on"))
    for _ in range(1200):
        if (place / "began-1").exists():
            break
        time.sleep(0.05)
    job._interrupt()
    assert job.result() == [0, 1]
    assert "Calling checkpoint method" in (job.stderr() or "")


def test_what_cannot_be_asked_for_is_said(executor: submitit.AutoExecutor) -> None:
    with pytest.raises(ValueError, match="nodes=2: a function runs once here"):
        executor.update_parameters(nodes=2)
    with pytest.raises(NameError, match="Unknown argument 'queue'"):
        executor.update_parameters(gpucommons_queue="x")


def test_it_is_chosen_by_itself_in_our_notebooks_alone(
    executor: submitit.AutoExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert submitit.AutoExecutor.which() != "gpucommons"
    monkeypatch.setenv("GPUCOMMONS_URL", "http://127.0.0.1:1")
    assert submitit.AutoExecutor.which() == "gpucommons"
    monkeypatch.setenv("GPUCOMMONS_ATTEMPT_ID", "a")
    assert submitit.AutoExecutor.which() != "gpucommons"
