"""What the tour's admin decides: the values of both charts, without what `gpucommons install` adds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from benchmarks.tour_kubernetes.site import CONFIG, JOBS
from benchmarks.tour_z2jh.pictures import PROXY, SCHEDULER
from deploy.release.contents import version
from tests.kubernetes.node.real_node import REAL

#: As in the docs.
HUB, SYSTEM = "jhub", "gpucommons"
IDLE_AFTER_S, WARN_AFTER_S = 30, 15
Values = dict[str, Any]


def of_ours() -> Values:
    """Of our chart."""
    place = {"selector": {REAL: "true"}}
    config = yaml.safe_load(Path(CONFIG).read_text())
    for team in config["teams"]:
        team["groups"] = [team["name"]]
        del team["members"]
    return {
        "image": {"repository": "localhost/gpucommons", "pullPolicy": "Never"},
        "hub": {"namespace": HUB},
        "database": {"sqlite": {"storageClass": f"{SYSTEM}-state", "size": "1Gi"}},
        "storage": {"kind": "folder", "folder": {"claim": "files", "schedulerClaim": "files"}},
        "jobs": {
            "namespace": JOBS,
            "createNamespace": False,
            "environments": {"": f"localhost/notebook:{version()}"},
            "imagePullPolicy": "Never",
            "pools": {"gpu": place, "cpu": place},
        },
        "config": config,
    }


def idle_soon() -> Values:
    """The same with a culler that people would not like."""
    extra = [f"--plain-idle-after-s={IDLE_AFTER_S}", f"--unverified-after-s={IDLE_AFTER_S}"]
    seconds = {"idleAfterSeconds": IDLE_AFTER_S, "warnAfterSeconds": WARN_AFTER_S}
    return {"culler": seconds | {"extraArgs": extra}}


def of_hub(password: str) -> Values:
    """Of Zero to JupyterHub's chart."""
    groups = {"vision": {"users": ["alice"]}, "nlp": {"users": ["bob"]}}
    return {
        "hub": {
            "config": {
                "JupyterHub": {"authenticator_class": "dummy", "load_groups": groups},
                "DummyAuthenticator": {"password": password},
                "Authenticator": {"allow_all": True},
            },
            "db": {"pvc": {"storageClassName": f"{HUB}-hub", "storage": "1Gi"}},
        },
        "proxy": {"service": {"type": "ClusterIP"}, "chp": {"image": _image(PROXY)}},
        "singleuser": {
            "cpu": {"guarantee": 0.5},
            "storage": {"type": "none"},
            "startTimeout": 180,
        },
        "scheduling": {
            "userScheduler": {"enabled": True, "replicas": 1, "image": _image(SCHEDULER)},
            "userPlaceholder": {"enabled": False},
        },
        "prePuller": {"hook": {"enabled": False}, "continuous": {"enabled": False}},
    }


def _image(reference: str) -> dict[str, str]:
    name, _, tag = reference.rpartition(":")
    return {"name": name, "tag": tag}
