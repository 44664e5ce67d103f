"""Spark: a cluster of the job's own workers, on which its script is the driver (``SparkSession``)."""

from __future__ import annotations

from gpucommons.scheduler.launchers.joined import cluster_start
from gpucommons.scheduler.launchers.launcher import Launcher, Start
from gpucommons.scheduler.launchers.worker_addresses import Gang


def _starts(gang: Gang) -> tuple[Start, ...]:
    return tuple(cluster_start("spark", gang, worker) for worker in gang.workers)


SPARK = Launcher(
    name="spark",
    starts=_starts,
    variables=("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "MASTER"),
    module="pyspark",
)
