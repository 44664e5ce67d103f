"""Plans for a training that is not submitted yet: formulas of the advisor on this cluster and its queue."""

from gpucommons.scheduler.service.advice.advising import advise

__all__ = ["advise"]
