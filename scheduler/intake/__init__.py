"""From what people write to what is stored: a request becomes a spec, or a sentence why not.

The only way in, whatever the interface, so panel, command line, YAML and REST store the same spec for
the same wish. Pure: what a request refers to is looked up before and passed in.
"""

from gpucommons.scheduler.intake.configuration import (
    budget_of,
    plan_config,
    plan_pools,
    policy_of,
    quota_of,
)
from gpucommons.scheduler.intake.jobs import Found, job_spec
from gpucommons.scheduler.intake.leases import Requester, lease_spec, notebook_pools
from gpucommons.scheduler.intake.resizing import resized_spec
from gpucommons.scheduler.intake.team_rules import check_pending

__all__ = [
    "Found",
    "Requester",
    "budget_of",
    "check_pending",
    "job_spec",
    "lease_spec",
    "notebook_pools",
    "plan_config",
    "plan_pools",
    "policy_of",
    "quota_of",
    "resized_spec",
]
