"""Rules about what exists and what admins set."""

from __future__ import annotations

from gpucommons.scheduler.errors import Forbidden
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service.authorization.sight import must_be_admin, read


def whoami(principal: Principal) -> None:
    """Everyone with a right of ours."""
    read(principal)


def pools(principal: Principal) -> None:
    """Readers."""
    read(principal)


def growth(principal: Principal) -> None:
    """Admins: what a cluster refuses is told in its own words."""
    must_be_admin(principal, "see which nodes are asked for")


def nodes(principal: Principal) -> None:
    """Readers; the view hides what is not theirs."""
    read(principal)


def teams(principal: Principal) -> None:
    """Readers; the view hides what is not theirs."""
    read(principal)


def set_node_state(principal: Principal) -> None:
    """Admins."""
    must_be_admin(principal, "cordon or fence nodes")


def notice_node(principal: Principal) -> None:
    """Admins: it ends what runs there."""
    must_be_admin(principal, "say that a node is taken back")


def put_config(principal: Principal) -> None:
    """Admins."""
    must_be_admin(principal, "change pools, teams and policies")


def check_config(principal: Principal) -> None:
    """Who may save one: the answer tells how it is now."""
    put_config(principal)


def get_config(principal: Principal) -> None:
    """Admins."""
    must_be_admin(principal, "read the whole configuration")


def set_budget(principal: Principal) -> None:
    """Admins."""
    must_be_admin(principal, "set budgets")


def set_quotas(principal: Principal) -> None:
    """Admins."""
    must_be_admin(principal, "set quotas")


def replay(principal: Principal) -> None:
    """Admins: the answer tells how all teams waited."""
    must_be_admin(principal, "replay the past under other quotas")


def metrics(principal: Principal) -> None:
    """Admins, and whoever may read the hub's metrics."""
    if not (principal.admin or principal.reads_metrics):
        message = "Metrics are for admins and tokens with the scope read:metrics."
        raise Forbidden(message)
