"""One rule per use case, named like it, pure: who may do what to what; one module for each kind of thing.

Every rule returns nothing or raises a sentence. What somebody may not even know of is reported as
missing (404), what is visible but not theirs to steer as forbidden (403).
"""

from gpucommons.scheduler.service.authorization import (
    attempts,
    cluster,
    history,
    jobs,
    notebooks,
    notifications,
    pipelines,
    profiles,
    schedules,
    sight,
    sweeps,
)

__all__ = [
    "attempts",
    "cluster",
    "history",
    "jobs",
    "notebooks",
    "notifications",
    "pipelines",
    "profiles",
    "schedules",
    "sight",
    "sweeps",
]
