"""Widgets for notebooks: the Train form and the live GPU tile, without a second Lab extension."""

from gpucommons.gpu.extras import coming_with

with coming_with("notebook"):
    from gpucommons.labextension.widgets.advice import advise
    from gpucommons.labextension.widgets.monitor import GpuMonitor
    from gpucommons.labextension.widgets.train import TrainPanel

__all__ = ["GpuMonitor", "TrainPanel", "advise"]
