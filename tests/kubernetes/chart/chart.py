"""The chart, rendered by the real Helm."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.toolchain import toolchain

CHART = Path(__file__).parents[3] / "deploy/helm/gpucommons"
RELEASE, NAMESPACE = "gpucommons", "gpucommons"
EXAMPLES = sorted((CHART / "ci").glob("*-values.yaml"))

Document = dict[str, Any]


class HelmRefused(Exception):
    """Helm says no; its words say why."""


def helm(*arguments: str, timeout_s: int = 330) -> str:
    """Run the real Helm."""
    done = subprocess.run(
        [str(toolchain.find("helm")), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode:
        raise HelmRefused(done.stderr + done.stdout)
    return done.stdout


def options(values: Mapping[str, Any] | Path | None) -> list[str]:
    """Values as arguments of Helm."""
    if values is None:
        return []
    if isinstance(values, Path):
        return ["--values", str(values)]
    return [
        part
        for key, value in values.items()
        for part in ("--set-json", f"{key}={json.dumps(value)}")
    ]


def rendered(values: Mapping[str, Any] | Path | None = None, *more: str) -> list[Document]:
    """Every document of the chart with these values."""
    text = helm("template", RELEASE, str(CHART), "--namespace", NAMESPACE, *options(values), *more)
    return [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]


def of_kind(documents: list[Document], kind: str, name: str | None = None) -> list[Document]:
    """Those of one kind, perhaps of one name."""
    return [
        one for one in documents if one["kind"] == kind and name in (None, one["metadata"]["name"])
    ]


def pod_specs(documents: list[Document]) -> Iterator[tuple[str, Document]]:
    """Every pod that the chart makes, by the name of what makes it."""
    for one in documents:
        template = one.get("spec", {}).get("template", {})
        if "spec" in template:
            yield one["metadata"]["name"], template["spec"]
