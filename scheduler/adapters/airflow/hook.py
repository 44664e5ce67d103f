"""A connection of Airflow as a client of ours."""

from __future__ import annotations

from argparse import Namespace

from airflow.sdk import BaseHook, Connection

from gpucommons.scheduler.cli.connect import find
from gpucommons.scheduler.client import AsyncSchedulerClient, SchedulerClient, calls
from gpucommons.scheduler.errors import BadRequest, SchedulerError


class GpuCommonsHook(BaseHook):
    """Opens clients for the connection's host (an address) and password (a token).

    Connections are looked up once: when a task is told to stop, Airflow cannot be asked any more.
    """

    conn_name_attr = "gpucommons_conn_id"
    default_conn_name = "gpucommons_default"
    conn_type = "gpucommons"
    hook_name = "GPU Commons"

    def __init__(self, gpucommons_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.gpucommons_conn_id = gpucommons_conn_id
        self._found: Connection | None = None

    def get_conn(self) -> SchedulerClient:
        """Open a blocking client."""
        self._found = self._found or self.get_connection(self.gpucommons_conn_id)
        return SchedulerClient(_address(self._found), token=self._found.password or None)

    async def open_async(self) -> AsyncSchedulerClient:
        """Open one for asyncio."""
        self._found = self._found or await self.aget_connection(self.gpucommons_conn_id)
        return AsyncSchedulerClient(_address(self._found), token=self._found.password or None)

    def test_connection(self) -> tuple[bool, str]:
        """What the button *Test* says."""
        try:
            with self.get_conn() as scheduler:
                return True, f"Jobs are submitted as {scheduler.send(calls.whoami()).name}."
        except SchedulerError as error:
            return False, str(error)


def _address(connection: Connection) -> str:
    if not connection.host:
        message = (
            f"The connection {connection.conn_id} has no address: write the scheduler's into its"
            " field Address (host), http://HOST:PORT or unix:/PATH."
        )
        raise BadRequest(message)
    return find(Namespace(url=connection.host, state=None), {})[0]
