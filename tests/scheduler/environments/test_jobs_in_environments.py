"""Jobs in environments of their own: settled at submit, held to policies, run as they are."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from launches import a_launch
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.environments.base import Wanted
from gpucommons.scheduler.environments.images import Images
from gpucommons.scheduler.errors import Misconfigured, PolicyRefused
from gpucommons.scheduler.executors.local.launch_plan import Surroundings, make_plan
from gpucommons.scheduler.executors.local.machine_environments import MachineEnvironments
from gpucommons.scheduler.service.administration import settings
from gpucommons.scheduler.service.job_quote import quote_job
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.training import alone, run
from gpucommons.scheduler.training.alone import client
from gpucommons.scheduler.training.alone import models as alone_models


def an_environment(folder: Path) -> Path:
    """This Python under another path, without any package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def world(tmp_path: Path, home: Path) -> ServiceWorld:
    made = ServiceWorld(tmp_path)
    environments = MachineEnvironments(
        home_of=lambda _user: home, account_of=None, environ={"PATH": "/usr/bin:/bin"}
    )
    made.service = replace(made.service, environments=environments)
    return made


def submit(world: ServiceWorld, **changes: Any) -> str:
    view = jobs.submit(world.service, world.principal("ann"), a_request(**changes), key=None)
    assert view.request is not None
    return view.request.environment


def allow(world: ServiceWorld, paths: Sequence[Path | str]) -> None:
    config = models.ConfigModel.model_validate({"policy": {"environments": list(map(str, paths))}})
    done(settings.put_config(world.service, world.admin, config))


def test_what_is_stored_is_where_the_name_led_to(world: ServiceWorld, home: Path) -> None:
    real = an_environment(home / "torch")
    (home / "link").symlink_to(real)
    asked = ["torch", str(real), str(home / "link"), f"{home}/x/../torch", "~/torch"]
    (home / "x").mkdir()
    assert {submit(world, environment=each) for each in asked} == {str(real)}
    assert submit(world, environment=sys.prefix) == ""
    assert submit(world) == ""


@pytest.mark.parametrize("asked", ["{home}/link", "{home}/allowed/../refused", "refused", "link"])
def test_no_detour_leads_to_an_environment_that_is_refused(
    world: ServiceWorld, home: Path, asked: str
) -> None:
    allowed, refused = an_environment(home / "allowed"), an_environment(home / "refused")
    (home / "link").symlink_to(refused)
    # Its name alone would be allowed.
    allow(world, [allowed, home / "link", "refused", "link"])
    with pytest.raises((PolicyRefused, Misconfigured)) as caught:
        submit(world, environment=asked.format(home=home))
    assert "policy environments" in str(caught.value) or "no environment" in str(caught.value)
    assert submit(world, environment=str(allowed)) == str(allowed)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"environment": "gone"}, "There is no environment called gone"),
        ({"environment": "/nowhere"}, "it is not there"),
        ({"roles": [{"command": ["no-such-program"]}]}, "There is no command 'no-such-program'"),
    ],
)
def test_what_cannot_run_is_refused_before_it_is_stored(
    world: ServiceWorld, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(Misconfigured) as caught:
        submit(world, **changes)
    assert says in str(caught.value)


DIGEST = f"registry.example/torch@sha256:{'a' * 64}"


def test_images_are_the_admins_own_or_pinned_by_their_digest() -> None:
    some, any_pinned = (
        Images(images={"": "", "torch": "torch:2"}),
        Images(images={"": ""}, any_image=True),
    )
    assert some.settle("ann", Wanted(environment="torch")) == "torch"
    assert any_pinned.settle("ann", Wanted(environment=DIGEST)) == DIGEST
    with pytest.raises(Misconfigured, match="name one of: torch"):
        some.settle("ann", Wanted(environment=DIGEST))
    with pytest.raises(Misconfigured, match="jobs do not see home folders here"):
        some.settle("ann", Wanted(links=True))


def test_a_tag_does_not_pass_for_the_digest_that_is_allowed(
    tmp_path: Path,
) -> None:
    world = ServiceWorld(tmp_path)
    world.service = replace(world.service, environments=Images(images={"": ""}, any_image=True))
    allow(world, [DIGEST])
    assert submit(world, environment=DIGEST) == DIGEST
    for tag in ("registry.example/torch:latest", "registry.example/torch"):
        with pytest.raises(PolicyRefused, match="policy environments"):
            submit(world, environment=tag)


def a_plan(tmp_path: Path, environment: str, command: tuple[str, ...], **env: str) -> Any:
    launch = a_launch(*command, environment=environment, env=env)
    around = Surroundings(
        folder=tmp_path, resume_folder=None, snapshot=None, home=tmp_path, python="/ours/bin/python",
        ports=(1, 2, 3), devices={}, environ={"PATH": "/usr/bin"}, training=tmp_path / "python",
    )  # fmt: skip
    (worker, *_) = make_plan(launch, around).workers
    return worker


def test_a_worker_runs_with_its_environment_in_front_and_ours_last(tmp_path: Path) -> None:
    worker = a_plan(tmp_path, "/envs/torch", ("python", "train.py"), PYTHONPATH="/own")
    assert worker.command == ("/envs/torch/bin/python3", "train.py")
    assert worker.env["PATH"] == "/envs/torch/bin:/usr/bin"
    assert worker.env["PYTHONPATH"] == f"/own:{tmp_path}/python"
    assert a_plan(tmp_path, "", ("python", "a.py")).command[0] == "/ours/bin/python"
    assert a_plan(tmp_path, "/envs/t", ("torchrun", "a.py")).command == ("torchrun", "a.py")


def test_a_notebooks_cells_run_there_and_what_starts_them_with_us(tmp_path: Path) -> None:
    runner = ("python", "-m", "gpucommons.scheduler.training.notebook", "a.ipynb")
    worker = a_plan(tmp_path, "/envs/torch", runner)
    assert worker.command[0] == "/ours/bin/python"
    assert worker.env["GPUCOMMONS_KERNEL_PYTHON"] == "/envs/torch/bin/python3"


SCRIPT = """
from gpucommons.scheduler import training
run = training.current()
run.report(step=1, loss=0.5)
with run.checkpoint(step=1) as folder:
    (folder / "a").write_text("x")
print(run.resume_step())
"""


def test_a_bare_environment_can_import_what_lets_a_script_be_resumed(tmp_path: Path) -> None:
    environment = an_environment(tmp_path / "bare")
    training = alone.lay_out(tmp_path / "python")
    ran = subprocess.run(
        [environment / "bin" / "python3", "-c", SCRIPT],
        env={"PYTHONPATH": str(training)}, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr) == ("1\n", "")
    assert (tmp_path / "checkpoints" / "step-1" / "a").exists()


def test_an_installed_gpu_commons_wins_over_the_copy(tmp_path: Path) -> None:
    training = alone.lay_out(tmp_path / "python")
    code = "import gpucommons.scheduler as s, gpucommons.scheduler.store; print(s.__file__)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(training)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert str(training) not in ran.stdout
    assert ran.returncode == 0, ran.stderr


def test_the_copy_is_renewed_and_what_is_right_stays(tmp_path: Path) -> None:
    folder = alone.lay_out(tmp_path / "python")
    run = folder / "gpucommons" / "scheduler" / "training" / "run.py"
    whole, before = run.read_text(), (folder / "gpucommons" / "scheduler" / "errors.py").stat()
    run.write_text("half")
    alone.lay_out(folder)
    assert run.read_text() == whole
    assert (
        folder / "gpucommons" / "scheduler" / "errors.py"
    ).stat().st_mtime_ns == before.st_mtime_ns


def test_the_copy_has_all_that_a_run_uses_of_client_and_models() -> None:
    tree = ast.parse(Path(run.__file__).read_text())
    used = {
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id in ("calls", "models")
    }
    stand_ins = {"calls": client.calls, "models": alone_models}
    assert used
    assert [each for each in used if not hasattr(stand_ins[each[0]], each[1])] == []


def test_the_copy_tells_what_was_measured_of_a_loader_as_it_is() -> None:
    loading = alone_models.LoadingReport.model_validate({"batches": 20, "workers": 1})
    told = client.calls.report_progress(alone_models.ProgressReport(step=1, loading=loading))
    assert json.loads(json.dumps(told.body)) == {
        "step": 1,
        "loading": {"batches": 20, "workers": 1},
    }


def joined(launcher: str = "torchrun", **changes: Any) -> dict[str, Any]:
    role = {"count": 2, "milli_gpu": 0, "memory_mib": 64, "command": ["python", "train.py"]}
    return {"launcher": launcher, "roles": [role], **changes}


def test_a_launcher_without_its_framework_is_refused_before_anything_is_stored(
    world: ServiceWorld, home: Path
) -> None:
    environment = str(an_environment(home / "bare"))
    for changes in ({}, {"environment": environment}):
        with pytest.raises(Misconfigured, match="The launcher torchrun needs torch, and "):
            submit(world, **joined(), **changes)
        with pytest.raises(Misconfigured, match="choose an environment that has it"):
            quote_job(world.service, world.principal("ann"), a_request(**joined(), **changes))
    (
        home
        / "bare"
        / "lib"
        / f"python{sys.version_info[0]}.{sys.version_info[1]}"
        / "site-packages"
        / "torch"
    ).mkdir(parents=True)
    assert submit(world, **joined(environment=environment)) == environment


def test_what_may_lie_elsewhere_is_not_refused(world: ServiceWorld) -> None:
    submit(world, **joined(env={"PYTHONPATH": "/opt/torch"}))
    submit(world, **joined("plain"))
    role = {"count": 2, "milli_gpu": 0, "memory_mib": 64, "command": ["bash", "run.sh"]}
    submit(world, **joined(roles=[role]))


def test_of_an_image_it_is_said_that_nothing_is_known(world: ServiceWorld) -> None:
    service = replace(world.service, environments=Images(images={"": "repo/lab:1"}))
    view = jobs.submit(service, world.principal("ann"), a_request(**joined()), key=None)
    assert view.warnings == [
        "The launcher torchrun needs torch: whether the image has it is not known here. Without it the job"
        " fails when it starts."
    ]
