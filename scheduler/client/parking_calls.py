"""Every call about parking a notebook as a pure value."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.client.call import Call, path_of


def park(lease_id: str, request: models.ParkRequest) -> Call[models.LeaseView]:
    """*Park*: move its GPU memory to the host (owner, culler, admin)."""
    path = path_of("leases", lease_id, "park")
    return Call(method="POST", path=path, answer=models.LeaseView, body=request)


def report_parked(lease_id: str, report: models.ParkedReport) -> Call[models.LeaseView]:
    """What came of it (the server's own token)."""
    path = path_of("leases", lease_id, "parked")
    return Call(method="PUT", path=path, answer=models.LeaseView, body=report)


def unpark(lease_id: str, request: models.UnparkRequest) -> Call[models.LeaseView]:
    """Wait in line to have its GPU back, or wait no longer (owner, admin)."""
    path = path_of("leases", lease_id, "unpark")
    return Call(method="POST", path=path, answer=models.LeaseView, body=request)
