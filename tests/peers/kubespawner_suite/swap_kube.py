"""A pytest plugin: KubeSpawner's own tests, with our subclass in its place.

Loaded before the tests, which take the class from the package. On simulated nodes no command runs in a
pod; the one question that most tests ask in there, whether the server's URL answers, is answered by what
the API knows: whether the URL is that of a pod that is Ready.
"""

from __future__ import annotations

import os
import sys
from typing import Any
from urllib.parse import urlsplit

import kubespawner
import pytest

from gpucommons.spawner.kube import GpuKubeSpawner

kubespawner.KubeSpawner = GpuKubeSpawner


#: What an unauthenticated caller gets of a notebook server, and what nobody answers with.
_ANSWERS, _NOTHING = "302", "000"


async def answer_of(
    kube_client: Any, _kube_ns: str, _pod_name: str, _code: object, kwargs: Any, **_more: Any
) -> str:
    """In place of the suite's ``_exec_python_in_pod``."""
    url = urlsplit(kwargs["url"])
    for pod in (await kube_client.list_pod_for_all_namespaces()).items:
        ready = any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)
        ports = {port.container_port for one in pod.spec.containers for port in one.ports or ()}
        if ready and pod.status.pod_ip == url.hostname and url.port in ports:
            return _ANSWERS
    return _NOTHING


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what ``LEFT_OUT`` names, whole names: one is the beginning of others."""
    if os.environ.get("SIMULATED") == "1":
        for module in tuple(sys.modules.values()):
            if hasattr(module, "_exec_python_in_pod"):
                module._exec_python_in_pod = answer_of
    names = set(os.environ.get("LEFT_OUT", "").split())
    left_out = [item for item in items if getattr(item, "originalname", item.name) in names]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
