"""Kubeflow Trainer's own sources, by name, version and hash: its CRDs, its runtimes, its words.

Read from Go's module cache, into which the ordinary client brings them; nothing of it is kept here.
"""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.api import wait_for
from tests.kubernetes.fixtures import unavailable
from tests.kubernetes.kubectl import Kubectl
from tests.kubernetes.toolchain.toolchain import ToolMissing, go_program

MODULE, HASH = (
    "github.com/kubeflow/trainer/v2@v2.0.0",
    "h1:mnQSR9iPKItxyUR8mq66XsmxqKNVHwr9YYOB7BTU9dU=",
)

TRAINJOBS = "trainjobs.trainer.kubeflow.org"
#: What Trainer's webhook says of it (``pkg/runtime/framework/plugins/jobset/jobset.go``).
WEBHOOK = {
    "failurePolicy": "Fail",
    "matchConstraints": {
        "resourceRules": [
            {
                "apiGroups": ["trainer.kubeflow.org"],
                "apiVersions": ["*"],
                "operations": ["UPDATE"],
                "resources": ["trainjobs"],
            }
        ]
    },
    "validations": [
        {
            "expression": (
                "(has(object.spec.suspend) && object.spec.suspend)"
                " || (has(object.spec.podSpecOverrides) ? object.spec.podSpecOverrides : [])"
                " == (has(oldObject.spec.podSpecOverrides) ? oldObject.spec.podSpecOverrides : [])"
            ),
            "message": "PodSpecOverrides can only be modified when the TrainJob is suspended",
        }
    ],
}


def trainer() -> Path:
    """The folder of the module; a test that needs it is left out, in words, where it can't be had."""
    found = _downloaded()
    if isinstance(found, str):
        unavailable(found)
    assert isinstance(found, Path)
    return found


@cache
def _downloaded() -> Path | str:
    try:
        go = go_program()
        answer = subprocess.run(
            [go, "mod", "download", "-json", MODULE],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd="/",
        )
        told = json.loads(answer.stdout or "{}")
    except (ToolMissing, OSError, subprocess.TimeoutExpired, ValueError) as error:
        return f"{MODULE} cannot be had: {error}"
    if told.get("Sum") != HASH:
        return f"{MODULE} cannot be had: {told.get('Error') or 'it has another hash'}"
    return Path(told["Dir"])


def crds() -> Path:
    """Its CRDs."""
    return trainer() / "manifests/base/crds"


def runtime(name: str) -> dict[str, Any]:
    """One of its own runtimes, as it is shipped."""
    file = trainer() / f"manifests/base/runtimes/{name.replace('-', '_')}.yaml"
    found: dict[str, Any] = yaml.safe_load(file.read_text())
    return found


def install(admin: Kubectl) -> None:
    """Its CRDs, its runtime for torch, and what its webhook refuses, in a cluster that may have them already."""
    admin("apply", "--server-side", "--force-conflicts", "-k", str(crds()))
    established = ("wait", "--for=condition=Established", f"crd/{TRAINJOBS}", "--timeout=60s")
    # A CRD that is a moment old has no conditions yet, which kubectl takes for a mistake.
    wait_for(lambda: admin.try_(*established).returncode == 0, "Trainer's CRDs hold")
    admin("apply", "-f", "-", stdin=yaml.safe_dump(runtime("torch-distributed")))
    binding = {"policyName": "played-trainer", "validationActions": ["Deny"]}
    kinds = {
        "ValidatingAdmissionPolicy": WEBHOOK,
        "ValidatingAdmissionPolicyBinding": binding,
    }
    admin.apply(
        *(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": "played-trainer"},
                "spec": spec,
            }
            for kind, spec in kinds.items()
        )
    )
