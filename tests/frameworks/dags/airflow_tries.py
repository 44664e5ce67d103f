"""Which job a try of a task gets: run by Airflow's Python beside a real scheduler; prints what came."""

from __future__ import annotations

import asyncio
import json
import sys
from types import SimpleNamespace
from typing import Any

from airflow.providers_manager import ProvidersManager
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, TaskDeferred
from airflow_dags import story

from gpucommons.scheduler.adapters.airflow.hook import GpuCommonsHook
from gpucommons.scheduler.adapters.airflow.operator import GpuCommonsOperator, _of_key
from gpucommons.scheduler.adapters.airflow.trigger import JobTrigger
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.errors import Unavailable

HERE = GpuCommonsHook.default_conn_name


class Kept(dict[str, Any]):
    """Airflow's store of a task, which outlives its tries."""

    set = dict.__setitem__

    def delete(self, key: str) -> None:
        self.pop(key, None)


def a_try(kept: Kept, **asked: Any) -> str:
    """The job, or why there is none."""
    operator = GpuCommonsOperator(task_id="train", **{"job": {"team": "vision"}, **asked})
    operator.dag = DAG("tries")
    of = SimpleNamespace(dag_id="story", run_id="r1", task_id="train", map_index=-1)
    try:
        operator.execute({"ti": of, "task_state_store": kept})
    except TaskDeferred as deferred:
        return str(deferred.trigger.job_id)
    except AirflowException as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def end_of(job_id: str, **how: Any) -> dict[str, Any]:
    async def waited() -> dict[str, Any]:
        trigger = JobTrigger(conn_id=HERE, job_id=job_id, **how)
        event = await anext(trigger.run())
        return dict(event.payload)

    return asyncio.run(waited())


class Away:
    """A scheduler that answers from the second question on."""

    def __init__(self) -> None:
        self.asked = 0

    async def send(self, call: Any) -> str:
        del call
        self.asked += 1
        if self.asked == 1:
            raise Unavailable
        return "answered"


class Shared:
    """A scheduler with two jobs of one key: the newer one is a teammate's."""

    def send(self, call: Any) -> Any:
        if call == calls.whoami():
            return SimpleNamespace(name="ann")
        asked = SimpleNamespace(labels={"airflow-key": "k"})
        both = [
            SimpleNamespace(id=f"{by}s", submitted_by=by, request=asked) for by in ("bob", "ann")
        ]
        return SimpleNamespace(jobs=both)


def told(kept: Kept, event: dict[str, Any]) -> str:
    operator = GpuCommonsOperator(task_id="train", command=["true"])
    try:
        return str(operator.execute_complete({"task_state_store": kept}, event)["job_id"])
    except AirflowException as error:
        return str(error)


def of_tries(found: dict[str, Any]) -> None:
    kept, long = Kept(), {"command": ["sleep", "600"]}
    found["first"] = a_try(kept, **long)
    found["again"] = a_try(kept, **long)
    found["changed"] = a_try(kept, command=["sleep", "601"])
    with GpuCommonsHook().get_conn() as scheduler:
        scheduler.send(calls.cancel(found["first"]))
    found["after_cancel"] = a_try(kept, **long)
    found["too_late"] = end_of(found["after_cancel"], until_s=1.0)
    found["cancelled"] = told(kept, end_of(found["after_cancel"]))
    failing = {"command": ["sh", "-c", "echo 'RuntimeError: no such data' >&2; exit 3"]}
    found["failing"] = a_try(kept, **failing)
    event = end_of(found["failing"])
    found["not_told_yet"] = a_try(kept, **failing)
    found["failed"] = told(kept, event)
    found["retried"] = a_try(kept, **failing)


def main() -> dict[str, Any]:
    found: dict[str, Any] = {}
    story.test()
    of_tries(found)
    found["of_key"] = _of_key(Shared(), "k").id
    one = {"command": ["true"]}
    found["refused"] = [
        a_try(Kept(), **one, gpus="much"),
        a_try(Kept(), script="gone.py"),
        a_try(Kept(), **one, job={"priority": "urgent"}),
        a_try(Kept()),
        a_try(Kept(), **one, gpucommons_conn_id="empty"),
        a_try(Kept(), **one, gpucommons_conn_id="nobody"),
    ]
    found["tested"] = [GpuCommonsHook(name).test_connection()[0] for name in (HERE, "nobody")]
    trigger = JobTrigger(conn_id=HERE, job_id="j")
    found["serialized"] = trigger.serialize()[1]
    found["away"] = asyncio.run(trigger._ask(Away(), calls.job("j")))
    found["form"] = ProvidersManager().field_behaviours["gpucommons"]["relabeling"]
    return found


if __name__ == "__main__":
    json.dump(main(), sys.stderr)
