"""The chart, installed by the real Helm: what tests of it share."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.chart.chart import helm
from tests.kubernetes.kubectl import Kubectl

#: Cluster-wide names of the chart are one release's: so the release has its usual name.
RELEASE, NAMESPACE, HUB = "gpucommons", "gpucommons", "gpucommons-test-hub"
JOBS, AGENTS = "gpucommons-jobs", "gpucommons-agents"
TRUSTED = "system:serviceaccount:argocd:controller"
#: A volume that a test may make for the release's state.
VOLUME = "gpucommons-test"
CUSTOM = ("trainingjobs.gpucommons.io", "teams.gpucommons.io")
#: Emptying a namespace takes its controllers half a minute on an idle machine.
PATIENCE_S = 180.0


@dataclass(frozen=True)
class Release:
    """The installed chart."""

    kubeconfig: Path
    kubectl: Kubectl
    namespace: str = NAMESPACE

    def helm(self, verb: str, *arguments: str) -> str:
        where = ("--namespace", self.namespace, "--kubeconfig", str(self.kubeconfig))
        return helm(verb, RELEASE, *arguments, *where)

    def values(self, **more: Any) -> list[str]:
        given = {
            "hub.namespace": HUB,
            "operator.trustedRequesters": [TRUSTED],
            "jobs.environments": {"": "gpucommons.test/python:1"},
            "jobs.imagePullPolicy": "Never",
            **more,
        }
        return [part for k, v in given.items() for part in ("--set-json", f"{k}={json.dumps(v)}")]

    def clear(self) -> None:
        """Remove what any release of this name left, and see it gone: names are used again."""
        self.helm("uninstall", "--no-hooks", "--ignore-not-found")
        for kind in CUSTOM:
            self._free(kind)
        left = (
            *(f"namespace/{name}" for name in (NAMESPACE, HUB, JOBS, AGENTS)),
            *(f"customresourcedefinition/{kind}" for kind in CUSTOM),
            f"persistentvolume/{VOLUME}",
        )
        self.kubectl("delete", "--ignore-not-found", "--wait=false", *left)
        self.await_gone(*left)

    def await_gone(self, *objects: str) -> None:
        """Wait until none of these is there any more; the error shows what keeps the rest."""
        deadline = time.monotonic() + PATIENCE_S
        while self.kubectl("get", "--ignore-not-found", "-o", "name", *objects):
            if time.monotonic() > deadline:
                kept = self.kubectl("get", "--ignore-not-found", "-o", "yaml", *objects)
                raise TimeoutError(f"not gone within {PATIENCE_S:.0f} s:\n{kept}")
            time.sleep(0.5)

    def _free(self, kind: str) -> None:
        """Take the operator's finalizers off: it runs no more."""
        listed = self.kubectl.try_("get", kind, "--all-namespaces", "-o", "json")
        for one in json.loads(listed.stdout)["items"] if listed.returncode == 0 else []:
            where = one["metadata"].get("namespace", "default")
            name, freed = one["metadata"]["name"], '{"metadata":{"finalizers":null}}'
            self.kubectl.try_("patch", kind, name, "-n", where, "--type=merge", "-p", freed)

    def as_account(self, account: str, folder: Path, namespace: str = NAMESPACE) -> Path:
        """A kubeconfig with the rights of one of the chart's accounts."""
        token = self.kubectl("create", "token", account, "-n", namespace).strip()
        document = yaml.safe_load(self.kubeconfig.read_text())
        document["users"] = [{"name": account, "user": {"token": token}}]
        for one in document["contexts"]:
            one["context"]["user"] = account
        path = folder / f"{account}.kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path


@contextmanager
def room_for_release(kubeconfig: Path) -> Iterator[Release]:
    """A cluster without any release of ours and with the hub's namespace; cleared afterwards."""
    found = Release(kubeconfig, Kubectl(kubeconfig, NAMESPACE))
    found.clear()
    try:
        found.kubectl("create", "namespace", HUB)
        yield found
    finally:
        found.clear()


def doctor(kubeconfig: Path) -> tuple[int, dict[str, dict[str, str]]]:
    """What `gpucommons doctor --cluster` ends with, and its lines by name."""
    done = subprocess.run(
        [Path(sys.executable).parent / "gpucommons", "doctor", "--cluster", "--output", "json"],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, {one["check"]: one for one in json.loads(done.stdout)["findings"]}
