"""What a user of Airflow writes: read by Airflow from its folder of DAGs, with ``train.py`` in ``train/``."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task

from gpucommons.scheduler.adapters.airflow.operator import GpuCommonsOperator

REACHED = Path(__file__).with_name("reached")
#: Where a job finds that it may end.
SEEN = str(Path(__file__).with_name("seen"))


class CutOff(GpuCommonsOperator):
    """Its first try stays between submit and defer until it is killed."""

    def defer(self, **how: Any) -> Any:
        if not REACHED.exists():
            REACHED.touch()
            time.sleep(600)
        return super().defer(**how)


def a_dag(name: str, operator: type[GpuCommonsOperator], *, retries: int = 1) -> DAG:
    tries = {"retries": retries, "retry_delay": timedelta(seconds=1)}
    with DAG(name, params={"mode": "well"}, default_args=tries) as dag:
        trained = operator(
            task_id="train",
            script="train/train.py",
            arguments=[
                "{{ params.mode }}",
                SEEN,
                "{{ dag.dag_id }}-{{ run_id }}-{{ ti.try_number }}",
            ],
            gpus=0.25,
            job={"team": "vision"},
        )

        @task
        def use(made: dict[str, Any]) -> str:
            return f"{made['files']} {made['metrics']}"

        use(trained.output)
    return dag


story = a_dag("story", GpuCommonsOperator)
# Airflow that starts anew begins tries before its own API answers them: each of these fails.
cut = a_dag("cut", CutOff, retries=30)
