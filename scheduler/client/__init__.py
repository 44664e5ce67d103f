"""The way every other part talks to the scheduler.

A *call* says what is asked (method, path, body, what comes back) and knows no network; a
*transport* sends it. So the two transports, one blocking and one for asyncio, share every call::

    with SchedulerClient(url, token=token) as scheduler:
        job = scheduler.send(calls.submit(request))
"""

from gpucommons.scheduler.client import calls
from gpucommons.scheduler.client.transport import AsyncSchedulerClient, SchedulerClient

__all__ = ["AsyncSchedulerClient", "SchedulerClient", "calls"]
