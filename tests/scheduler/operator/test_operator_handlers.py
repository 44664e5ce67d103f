"""What many objects at once do to the operator, and what is left when their kinds are gone."""

import asyncio
from typing import Any, cast

import kopf
import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.operator.cluster import KubernetesObjects
from gpucommons.scheduler.operator.following import LiveObjects, Pace
from gpucommons.scheduler.operator.handlers import FINALIZER, Jobs, Surroundings
from gpucommons.scheduler.operator.running import framework_settings


class Scheduler:
    """Refuses everything, after others had a turn; knows how many asked at a time."""

    def __init__(self) -> None:
        self.asking = self.most = self.asked = 0

    async def send(self, _call: Any) -> Any:
        self.asking += 1
        self.most = max(self.most, self.asking)
        await asyncio.sleep(0)
        self.asking -= 1
        self.asked += 1
        message = "refused"
        raise Misconfigured(message)


class Objects:
    def team_of(self, _namespace: str) -> str:
        return "vision"


def a_body(number: int) -> kopf.Body:
    meta = {"name": f"job-{number}", "namespace": "n", "uid": f"uid-{number}", "generation": 1}
    body: Any = {"metadata": meta, "spec": {"user": "ann", "roles": [{"command": ["x"]}]}}
    return kopf.Body(body)


async def test_hundreds_of_objects_ask_the_scheduler_a_few_at_a_time() -> None:
    scheduler = Scheduler()
    around = Surroundings(
        scheduler=cast("Any", scheduler),
        objects=cast("Any", Objects()),
        live_objects=LiveObjects(),
        pace=Pace(),
        now_ms=lambda: 0,
    )
    jobs = Jobs(around)
    found = await asyncio.gather(
        *(jobs.submit(a_body(number), kopf.Patch()) for number in range(200)),
        return_exceptions=True,
    )
    assert {type(one) for one in found} == {kopf.TemporaryError}
    assert scheduler.asked == 200
    assert 1 < scheduler.most <= 16


def test_an_object_that_waits_for_its_next_try_takes_nobodys_place() -> None:
    # The framework's workers sleep that time: a bound on them would let a few objects stop all others.
    assert framework_settings().queueing.worker_limit is None


@pytest.mark.parametrize("status", [404, 403])
def test_nothing_is_to_be_released_where_the_kinds_are_gone(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise ApiException(status=status)

    monkeypatch.setattr(client.CustomObjectsApi, "list_cluster_custom_object", refused)
    objects = KubernetesObjects(client.ApiClient())
    if status == 404:
        assert objects.release(FINALIZER) == 0
    else:
        with pytest.raises(ApiException):
            objects.release(FINALIZER)
