"""The wire format of ``/v1``: what panel, widget, CLI, YAML and REST all speak.

A file per noun; all names are taken from here. Rules that need the state of the cluster live in
the intake and the core. Times are integer UTC milliseconds, sizes carry their unit.
"""

from __future__ import annotations

from gpucommons.scheduler.models.access import ErrorView, WhoAmI
from gpucommons.scheduler.models.activity import (
    ActivityList,
    ActivityReport,
    ActivityView,
    IdleReport,
    KernelActivity,
)
from gpucommons.scheduler.models.attempts import (
    AttemptOrders,
    AttemptView,
    CheckpointReport,
    CheckpointView,
    ProgressReport,
    ProgressView,
    StopView,
)
from gpucommons.scheduler.models.configuration import (
    ConfigModel,
    LayoutView,
    QuotaChange,
    QuotaChanges,
)
from gpucommons.scheduler.models.fields import (
    Argument,
    EnvName,
    Id,
    MilliGpu,
    Model,
    Name,
    Ref,
    RelativePath,
    Sha256,
    Text,
    UserName,
    View,
)
from gpucommons.scheduler.models.history import EventList, EventView, Report, ReportRow
from gpucommons.scheduler.models.jobs import (
    Curve,
    CurvePoint,
    JobList,
    JobRequest,
    JobView,
    LogView,
    Quote,
    RoleRequest,
    SnapshotView,
)
from gpucommons.scheduler.models.leases import (
    EndReport,
    IdleView,
    KeepRequest,
    LeaseList,
    LeaseRequest,
    LeaseView,
    ReclaimRequest,
    SliceView,
    StartedReport,
)
from gpucommons.scheduler.models.nodes import (
    DeviceView,
    HoldView,
    NodeList,
    NodeStateRequest,
    NodeView,
)
from gpucommons.scheduler.models.offers import Availability, OfferList, OfferView, SizeView
from gpucommons.scheduler.models.pools import PoolList, PoolModel, PoolView
from gpucommons.scheduler.models.reasons import ForecastView, ReasonView, WayView, Why
from gpucommons.scheduler.models.replay import (
    ReplayFigures,
    ReplayRequest,
    ReplaySide,
    ReplayView,
)
from gpucommons.scheduler.models.teams import (
    PolicyModel,
    QuotaModel,
    TeamList,
    TeamModel,
    TeamUseView,
    TeamView,
)

__all__ = [
    "ActivityList",
    "ActivityReport",
    "ActivityView",
    "Argument",
    "AttemptOrders",
    "AttemptView",
    "Availability",
    "CheckpointReport",
    "CheckpointView",
    "ConfigModel",
    "Curve",
    "CurvePoint",
    "DeviceView",
    "EndReport",
    "EnvName",
    "ErrorView",
    "EventList",
    "EventView",
    "ForecastView",
    "HoldView",
    "Id",
    "IdleReport",
    "IdleView",
    "JobList",
    "JobRequest",
    "JobView",
    "KeepRequest",
    "KernelActivity",
    "LayoutView",
    "LeaseList",
    "LeaseRequest",
    "LeaseView",
    "LogView",
    "MilliGpu",
    "Model",
    "Name",
    "NodeList",
    "NodeStateRequest",
    "NodeView",
    "OfferList",
    "OfferView",
    "PolicyModel",
    "PoolList",
    "PoolModel",
    "PoolView",
    "ProgressReport",
    "ProgressView",
    "QuotaChange",
    "QuotaChanges",
    "QuotaModel",
    "Quote",
    "ReasonView",
    "ReclaimRequest",
    "Ref",
    "RelativePath",
    "ReplayFigures",
    "ReplayRequest",
    "ReplaySide",
    "ReplayView",
    "Report",
    "ReportRow",
    "RoleRequest",
    "Sha256",
    "SizeView",
    "SliceView",
    "SnapshotView",
    "StartedReport",
    "StopView",
    "TeamList",
    "TeamModel",
    "TeamUseView",
    "TeamView",
    "Text",
    "UserName",
    "View",
    "WayView",
    "WhoAmI",
    "Why",
]
