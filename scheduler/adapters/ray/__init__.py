"""Ray on borrowed GPUs: its head beside the notebook's kernel, its workers an elastic job.

``from gpucommons.scheduler.adapters.ray import RayCluster``. Here lives nothing that other parts need, and
nobody imports it but the user. Read :mod:`.cluster` first.
"""

from gpucommons.scheduler.adapters.ray.cluster import RayCluster

__all__ = ["RayCluster"]
