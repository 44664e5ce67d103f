"""``gpucommons data``: what is said, and that nothing is set unless told so."""

from __future__ import annotations

from command_line import Cli, WatchedWorld, submitted

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import UserName, WorkloadId
from gpucommons.scheduler.principal import Principal, PrincipalKind
from gpucommons.scheduler.service.jobs import attempts


def waiting_for_data(world: WatchedWorld) -> models.JobView:
    """A job that runs, and of whose batches three quarters are waiting."""
    job = submitted(world, role={"milli_gpu": 1000, "cpu_milli": 4000})
    world.pass_time(1000)
    attempt = world.loop.cluster.workloads[WorkloadId(job.id)].current
    assert attempt is not None
    speaker = Principal(
        name=UserName("ann"), kind=PrincipalKind.ATTEMPT, attempt_id=attempt.attempt_id
    )
    loading = models.LoadingReport(
        batches=100, batch_us=160_000, wait_us=120_000, late_percent=100, workers=0
    )
    report = models.ProgressReport(step=1, loading=loading)
    attempts.report_progress(world.service, speaker, report)
    world.pass_time(1000)
    return job


def test_advice_is_said_and_set_only_when_told(cli: Cli, world: WatchedWorld) -> None:
    job = waiting_for_data(world)
    said = cli("data", job.name)
    assert said.out.splitlines()[0].startswith("It waits for its data for 120 ms of 160 ms")
    assert said.out.splitlines()[1].endswith(f"gpucommons data {job.name} --apply")
    assert cli("data", job.name, "--output", "json").json["chosen"] is None
    applied = cli("data", job.name, "--apply").out.splitlines()[-1]
    assert applied == "Chosen by ann: 3 workers, 2 batches ahead each (from its next attempt on)."
    other = cli("data", job.name, "--workers", "1", "--prefetch", "4", "--output", "json").json
    assert (other["chosen"]["workers"], other["chosen"]["prefetch"]) == (1, 4)
    assert cli("data", job.name, "--as-script", "--output", "json").json["chosen"] is None


def test_what_cannot_be_set_is_refused_with_what_is_known(cli: Cli, world: WatchedWorld) -> None:
    job = submitted(world)
    refused = cli("data", job.name, "--apply")
    assert refused.code == 2
    assert "Nothing is advised that could be set. How it waits" in refused.err
    assert cli("data", job.name, "--prefetch", "2").code == 2
    assert cli("data", job.name, "--workers", "many").code == 2
    assert cli("data", job.name, "--workers", "5000").code == 2


def test_a_job_that_is_over_is_run_again_as_its_advice_says(cli: Cli, world: WatchedWorld) -> None:
    job = waiting_for_data(world)
    cli("cancel", job.name)
    world.pass_time(60_000)
    line = cli("data", job.name).out.splitlines()[-1]
    wanted = line.removeprefix("To run it again so: gpucommons ").split()
    assert wanted == ["again", job.name, "--loader-workers", "3", "--loader-prefetch", "2"]
    again = cli(*wanted, "--output", "json").json
    chosen = cli("data", again["name"], "--output", "json").json["chosen"]
    assert (chosen["workers"], chosen["by"]) == (3, "ann")
    assert cli("again", job.name, "--loader-prefetch", "2").code == 2
