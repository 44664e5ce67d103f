"""Jobs under accounts of their own, where users may make no namespaces: root starts what is saved."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from launches import python
from real_box import Box
from saved_jobs import ABLE, ALL, STEPS, criu_command, history, paused, steps_in_the_end

from benchmarks.hibernation import forbidding, forbidding_users, hostile
from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.scheduler.core.model.intents import Resume
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.executors.local.attempt.hibernating import are_ours
from gpucommons.scheduler.executors.local.attempt.plan import Account

SYSTEM_PYTHON = shutil.which("python3", path="/usr/bin:/bin")
OURS = f"{sys.version_info.major}.{sys.version_info.minor}"
UID = 54_322
pytestmark = [
    pytest.mark.criu,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the account"),
    pytest.mark.skipif(
        SYSTEM_PYTHON is None or not Path(SYSTEM_PYTHON).resolve().name.endswith(OURS),
        reason=f"no Python {OURS} that every account may run",
    ),
]
#: What it may do, at its end.
WHO = """
import json, os
told = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
named = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs")
who = [os.getresuid(), os.getresgid(), os.getgroups(), *(told[name] for name in named), os.environ.get("SERVICE_SECRET")]
open("who", "w").write(json.dumps(who))
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other accounts can pass through, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    folder.chmod(0o711)
    os.chown(folder, UID, UID)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def criu() -> Iterator[Criu]:
    """One that all may run, and root alone may change: the cache's may lie in a closed folder."""
    with tempfile.TemporaryDirectory(prefix="gc") as folder:
        Path(folder).chmod(0o711)
        yield hostile.criu_for_all(Criu(command=criu_command(), version=""), Path(folder) / "criu")


@pytest.fixture(params=[forbidding, forbidding_users], ids=["to_all", "to_users"])
def box(
    request: pytest.FixtureRequest, place: Path, criu: Criu, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Box]:
    folders = os.pathsep.join(path for path in sys.path if path)
    script = place / "python"
    # What the supervisor starts may make no user namespaces, and it neither, or it may.
    forbid = f"{SYSTEM_PYTHON} -m {request.param.__name__}"
    script.write_text(
        f"#!/bin/sh\nexport PYTHONPATH='{folders}'\n"
        f'case "$*" in *executors.supervisor*) exec {forbid} {SYSTEM_PYTHON} "$@";; esac\n'
        f'exec {SYSTEM_PYTHON} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    made = Box(
        place,
        ABLE,
        criu.command,
        change=lambda settings: replace(
            settings,
            account_of=lambda _user: Account(uid=UID, gid=UID, groups=(UID, 4444)),
            is_saved_by_root=lambda: True,
            python=str(SYSTEM_PYTHON),
            environ={"PATH": os.environ["PATH"]},
        ),
    )
    (place / "state").chmod(0o711)
    monkeypatch.setenv("SERVICE_SECRET", "hidden")
    yield made
    made.close()


def running(box: Box) -> WorkloadId:
    job = box.submit("steps", 1000, python(STEPS.replace("0.02", "0.05") + WHO))
    box.until(lambda: job in box.loop.cluster.workloads and box.gpu_of(job) is not None)
    box.until(lambda: len(history(box, job)) > 20)
    return job


def test_a_job_goes_on_where_it_was_and_has_no_right(box: Box, place: Path) -> None:
    job = running(box)
    for number in (1, 2):
        paused(box, job)
        last = box.get(job).attempts[-1]
        assert (last.number, last.not_saved) == (number, "")
        assert last.image is not None
        box.ask(Resume(workload_id=job))
        before = len(history(box, job))
        box.until(lambda before=before: len(history(box, job)) > before + 5)  # type: ignore[misc] # bound

    assert steps_in_the_end(box, job, place) == ALL

    over = box.store.workload(job)
    assert over is not None
    assert over.attempts[-1].hibernation is not None
    assert over.attempts[-1].hibernation.woken_from == 2
    who = json.loads((place / "results" / over.spec.name / "who").read_text())
    none = ["0000000000000000"] * 5
    assert who == [[UID] * 3, [UID] * 3, [4444, UID], *none, "1", None]


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("/attempts/b/run", "/etc"),
        ("/attempts/b/run", "/attempts/a/../run"),
        ("/attempts/b/run", "/attempts/a/plan.json"),
        ("/home/eve/run", "/attempts/a/run"),
        # For the kernel it ends at the NUL.
        ("/attempts/b/run", "/attempts/..\0/run"),
    ],
)
def test_root_mounts_nothing_over_another_place(new: str, old: str) -> None:
    assert are_ours(Path("/attempts"), [("/attempts/b/run", "/attempts/a/run")])
    assert not are_ours(Path("/attempts"), [(new, old)])
