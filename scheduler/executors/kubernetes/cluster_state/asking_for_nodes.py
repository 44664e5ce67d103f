"""What every way of asking an autoscaler for nodes shares: for which pools, for whom, and what an admin is told."""

from __future__ import annotations

from collections.abc import Mapping

from gpucommons.scheduler.core.model.resources import Growth, Pool
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.executors.kubernetes.api_server.connection import (
    NOT_FOUND,
    UNPROCESSABLE,
    ApiError,
    Connection,
)
from gpucommons.scheduler.executors.kubernetes.api_server.refusals import is_refusal
from gpucommons.scheduler.executors.kubernetes.cluster_state.cluster_view import ClusterView
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.nodes.placeholder_pods import Document, owner_of
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings


class OwnerUnknownError(ApiError):
    """The owner of what asks for nodes is not there, or not shown: somebody must mend that."""


def owner(connection: Connection, settings: KubernetesSettings) -> Document | None:
    """Whose an object is that asks for a node; None: nobody's.

    Asked each time: another Deployment of the same name is another owner.
    """
    name, namespace = settings.placeholder_owner, settings.system_namespace
    if name is None:
        return None
    try:
        found = connection.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    except ApiError as error:
        if error.try_again:
            raise
        message = (
            f"placeholder_owner names the Deployment {name}, which the cluster does not show in"
            f" namespace {namespace}: {error.message}"
        )
        # Not its own status: what is not found rests no time before it is asked for again.
        raise OwnerUnknownError(UNPROCESSABLE, "OwnerUnknown", message) from None
    return owner_of(found)


class AskingForNodes:
    """One way of asking, by its name in the settings. Used with the lock of the view held."""

    def __init__(
        self, settings: KubernetesSettings, around: Around, view: ClusterView, way: str, what: str
    ) -> None:
        self._settings = settings
        self._around = around
        self._view = view
        self._way = way
        #: What the cluster may refuse, in words.
        self._what = what
        #: What an admin is told of pools for which no node can be asked for.
        self.refused: dict[PoolName, str] = {}

    def sentences(self) -> Mapping[str, str]:
        """What an admin is told, by pool."""
        return {f"pools/{pool}": said for pool, said in self.refused.items()}

    def wanted(self) -> Mapping[PoolName, int] | None:
        """How many nodes are missing in pools that chose this way; None: that is not known now."""
        missing = self._around.missing_nodes()
        if missing is None:
            return None
        found = {
            pool: nodes
            for pool, nodes in missing.items()
            if self._settings.place_of(pool).scale_up == self._way
        }
        self.refused = {pool: said for pool, said in self.refused.items() if pool in found}
        return found

    def growing(self, name: PoolName) -> tuple[Pool, Growth] | None:
        """The pool and what its nodes are like, where it may grow."""
        pool = next((one for one in self._around.pools() if one.name == name), None)
        return None if pool is None or pool.growth is None else (pool, pool.growth)

    def told(self, pool: PoolName, error: ApiError | None) -> None:
        """What became of an order; takes the lock."""
        with self._view.lock:
            if error is None:
                self.refused.pop(pool, None)
            elif is_refusal(error) or error.status == NOT_FOUND:
                of_owner = isinstance(error, OwnerUnknownError)
                why = "" if of_owner else f"the cluster refuses the {self._what}: "
                self.refused[pool] = (
                    f"No node can be asked for in pool {pool}, as {why}{error.message}"
                )
