"""Dask on borrowed GPUs: its scheduler in the notebook's kernel, its workers an elastic job.

``from gpucommons.scheduler.adapters.dask import DaskCluster``. Here lives nothing that other parts need, and
nobody imports it but the user. Read :mod:`.cluster` first.
"""

from gpucommons.scheduler.adapters.dask.cluster import DaskCluster

__all__ = ["DaskCluster"]
