"""What a stopped server keeps is shown as reported, as long as it holds, and to its owner alone."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError
from service_world import ServiceWorld, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.going_on import KeptKernels
from gpucommons.scheduler.errors import Forbidden
from gpucommons.scheduler.service import leases, notebook_offers
from gpucommons.scheduler.service.views.kept import kept_view

DAY_MS = 24 * 3600 * 1000
GIB = 1 << 30


def a_server(world: ServiceWorld, user: str = "ann") -> models.LeaseView:
    request = models.LeaseRequest(user=user, milli_gpu=500)
    lease = done(leases.acquire(world.service, world.hub_service, request, key=None))
    started = models.StartedReport()
    return done(leases.started(world.service, world.hub_service, lease.id, started))


def stop(world: ServiceWorld, lease: models.LeaseView) -> None:
    end = models.EndReport(why="stopped")
    done(leases.end_lease(world.service, world.hub_service, lease.id, end))


def report(world: ServiceWorld, lease: models.LeaseView, **kept: int) -> models.LeaseView:
    body = models.KeptKernelsReport(**kept)
    return done(leases.report_kept_kernels(world.service, world.principal("ann"), lease.id, body))


def shown(world: ServiceWorld) -> str | None:
    kept = notebook_offers.offers(world.service, world.principal("ann"), None, "").kept
    return None if kept is None else kept.text


def until(world: ServiceWorld) -> tuple[int, str]:
    at_ms = world.now_ms + 9 * DAY_MS
    date = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    return at_ms, f"until {date.day} {date:%B}"


def test_what_was_reported_is_shown_once_the_server_is_gone(world: ServiceWorld) -> None:
    lease = a_server(world)
    until_ms, date = until(world)
    told = report(world, lease, kernels=2, kernel_bytes=6 * GIB // 5, until_ms=until_ms)
    assert told.kept is not None
    assert shown(world) is None
    stop(world, lease)
    for at_ms in (world.now_ms, world.now_ms + DAY_MS, until_ms - 1):
        world.now_ms = at_ms
        assert shown(world) == f"Your 2 kernels (1.2 GiB) are kept {date}."
    world.now_ms = until_ms
    assert shown(world) is None


def test_nothing_is_said_to_be_kept_where_nothing_was_reported(world: ServiceWorld) -> None:
    stop(world, a_server(world))
    assert shown(world) is None


def test_what_is_awake_again_is_not_kept_any_more(world: ServiceWorld) -> None:
    lease = a_server(world)
    report(world, lease, kernels=1, kernel_bytes=GIB, until_ms=until(world)[0])
    stop(world, lease)
    report(world, lease)
    assert shown(world) is None


def test_it_is_corrected_also_long_after_the_end(world: ServiceWorld) -> None:
    """A server without a GPU, which has no lease, wakes the kernels of one that had."""
    lease = a_server(world)
    report(world, lease, kernels=1, kernel_bytes=GIB, until_ms=until(world)[0])
    stop(world, lease)
    world.pass_time(3600_000)
    assert lease.id not in world.loop.cluster.workloads
    assert shown(world) is not None
    report(world, lease)
    assert shown(world) is None
    assert lease.id not in world.loop.cluster.workloads


def test_a_place_in_line_in_between_hides_nothing(world: ServiceWorld) -> None:
    lease = a_server(world)
    report(world, lease, variables=3, variable_bytes=5000, until_ms=until(world)[0])
    stop(world, lease)
    ask = models.LeaseRequest(user="ann", milli_gpu=500)
    left = done(leases.acquire(world.service, world.hub_service, ask, key=None))
    end = models.EndReport(why="failed")
    done(leases.end_lease(world.service, world.hub_service, left.id, end))
    assert shown(world) == f"3 variables are kept (5 KiB) {until(world)[1]}."


def test_the_next_server_without_a_report_ends_what_the_last_one_said(world: ServiceWorld) -> None:
    first = a_server(world)
    report(world, first, kernels=1, kernel_bytes=GIB, until_ms=until(world)[0])
    stop(world, first)
    world.pass_time(1000)
    stop(world, a_server(world))
    assert shown(world) is None


def test_only_its_owner_reports_it_and_reads_it(world: ServiceWorld) -> None:
    lease = a_server(world)
    body = models.KeptKernelsReport(kernels=1, until_ms=until(world)[0])
    for other in (world.principal("alf"), world.admin, world.hub_service, world.culler):
        with pytest.raises(Forbidden, match="own server"):
            leases.report_kept_kernels(world.service, other, lease.id, body)
    report(world, lease, kernels=1, until_ms=until(world)[0])
    for reader, sees in ((world.principal("ann"), True), (world.principal("alf"), False)):
        seen = leases.lease(world.service, reader, lease.id)
        assert (seen.kept is not None) is sees


@pytest.mark.parametrize(
    "body",
    [{"kernels": 1}, {"variables": 2}, {"kernels": -1}, {"kernel_bytes": 1 << 60}, {"text": "x"}],
)
def test_a_report_that_cannot_be_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        models.KeptKernelsReport.model_validate(body)


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        ((1, 300 << 20, 0, 0, 0), "Your kernel (300 MiB) is kept until 1 December."),
        ((0, 0, 12, 900, 2), "12 of 14 variables are kept (1 KiB) until 1 December."),
        ((0, 0, 1, 1, 0), "1 variable is kept (1 KiB) until 1 December."),
        (
            (2, GIB, 5, 2 << 20, 0),
            "Your 2 kernels (1.0 GiB) are kept until 1 December."
            " 5 variables are kept (2 MiB) until 1 December.",
        ),
    ],
)
def test_the_sentence_has_the_numbers(kept: tuple[int, ...], text: str) -> None:
    kernels, kernel_bytes, variables, variable_bytes, lost = kept
    noon = datetime(2026, 12, 1, 12, tzinfo=UTC).timestamp() * 1000
    known = KeptKernels(
        kernels=kernels,
        kernel_bytes=kernel_bytes,
        variables=variables,
        variable_bytes=variable_bytes,
        variables_lost=lost,
        until_ms=int(noon),
    )
    view = kept_view(known, 0)
    assert view is not None
    assert view.text == text
    # The same facts, below a heading.
    for fact in ("(1.0 GiB)", "12 of 14", "until 1 December."):
        assert (fact in view.brief) is (fact in text)
