"""A client of the test cluster from a kubeconfig, and waiting for what it will say."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kubernetes import client, config

from gpucommons.scheduler.client import SchedulerClient, calls

Answer = TypeVar("Answer")


def api_client(kubeconfig: Path) -> client.ApiClient:
    """A client that reads nothing of the environment."""
    return config.new_client_from_config(config_file=str(kubeconfig))


def wait_for(question: Callable[[], Answer | None], what: str, *, seconds: float = 90.0) -> Answer:
    """Ask until the answer is not empty; the error says what did not come.

    An API server of a busy machine that has no time to answer (5xx) is asked again.
    """
    deadline = time.monotonic() + seconds
    while True:
        error = None
        try:
            answer = question()
        except client.exceptions.ServiceException as busy:
            answer, error = None, busy
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s") from error
        time.sleep(0.1)


def is_configured(scheduler: SchedulerClient) -> bool:
    """Whether the first configuration is in force, and a GPU of its first pool seen.

    Pools are shown as they will be even before the configuration is in force, teams are not.
    """
    pools = scheduler.send(calls.pools()).pools
    return bool(pools and pools[0].free_milli_gpu and scheduler.send(calls.teams()).teams)
