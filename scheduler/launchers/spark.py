"""Spark: a cluster of the job's own workers, on which its script is the driver (``SparkSession``)."""

from __future__ import annotations

from gpucommons.scheduler.launchers.gang import Gang, Launcher, Start
from gpucommons.scheduler.launchers.joined import cluster_start


def _starts(gang: Gang) -> tuple[Start, ...]:
    return tuple(cluster_start("spark", gang, worker) for worker in gang.workers)


SPARK = Launcher(
    name="spark",
    starts=_starts,
    variables=("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "MASTER"),
    module="pyspark",
)
