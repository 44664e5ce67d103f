"""Each YAML block of a document is what a reader of ours takes; one that none of them takes is named here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gpucommons.scheduler import models
from gpucommons.scheduler.adapters.settings_file import read_file
from gpucommons.scheduler.adapters.slurm.settings import SlurmSettings
from gpucommons.scheduler.adapters.trainer.settings import TrainerSettings
from gpucommons.scheduler.cli.config_files import read_config
from gpucommons.scheduler.cli.schedules.documents import read_schedule
from gpucommons.scheduler.cli.sweeps import commands as sweeps
from gpucommons.scheduler.client.documents.jobs import Bounds, read_job
from gpucommons.scheduler.client.documents.pipelines import read_pipeline
from gpucommons.scheduler.executors.kubernetes.settings import PoolPlace
from gpucommons.scheduler.models.administration.configuration import ConfigModel
from gpucommons.scheduler.models.jobs.profiles import NamedProfile
from gpucommons.scheduler.notifications.settings import NotificationSettings
from gpucommons.scheduler.operator.objects import TrainingJobSpec

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/gpucommons"
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
MOST = 1 << 20
#: Objects of Kubernetes', Karpenter's, Kubeflow's or Prometheus' own, and values of another chart.
OF_OTHERS = {
    "back-up-and-restore.md-1",
    "install-on-zero-to-jupyterhub.md-1",
    "install-on-zero-to-jupyterhub.md-2",
    "install-on-zero-to-jupyterhub.md-3",
    "install-with-helm.md-4",
    "install-with-helm.md-6",
    "install-with-helm.md-8",
    "queue-trainjobs.md-2",
}


def blocks() -> dict[str, str]:
    documents = (ROOT / "README.md", *sorted(ROOT.glob("docs/*/*.md")))
    return {
        f"{path.name}-{number}": text
        for path in documents
        for number, text in enumerate(BLOCK.findall(path.read_text()), 1)
    }


BLOCKS = blocks()
OURS = [place for place in BLOCKS if place not in OF_OTHERS]


def _chart_values(path: Path, values: dict[str, Any]) -> None:
    """As Helm reads them: keys and kinds by the schema; what is passed on, by who reads it then."""
    jsonschema.validate(values, json.loads((CHART / "values.schema.json").read_text()))
    known = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values.keys() <= known.keys()
    ConfigModel.model_validate(values.get("config", {}))
    for pool in values.get("jobs", {}).get("pools", {}).values():
        PoolPlace.model_validate(pool)
    if settings := values.get("trainjobs", {}).get("settings"):
        TrainerSettings.model_validate(settings)


def _object(path: Path, document: dict[str, Any]) -> None:
    spec = document["spec"]
    if document["kind"] == "Team":
        assert models.TeamModel.model_validate({"name": document["metadata"]["name"], **spec})
    else:
        named = {"name": document["metadata"]["name"], **spec}
        assert TrainingJobSpec.model_validate(named)


def _job(path: Path, document: dict[str, Any]) -> None:
    """A job or a sweep, with the script that it runs."""
    if "run" in document:
        (path.parent / document["run"]).write_text("")
    own = {name: document.pop(name) for name in sweeps._OWN if name in document}
    path.write_text(yaml.safe_dump(document))
    _, job, _ = read_job(path, max_bytes=MOST)
    if own:
        assert models.SweepRequest.model_validate({"job": job, **own})


def _pipeline(path: Path, document: dict[str, Any]) -> None:
    for step in document["steps"].values():
        (path.parent / step["run"]).write_text("")
    assert read_pipeline(path, bounds=Bounds(max_bytes=MOST)).request.steps


def _schedule(path: Path, document: dict[str, Any]) -> None:
    (path.parent / document["job"]["run"]).write_text("")
    assert read_schedule(path, max_bytes=MOST)[1].triggers


#: By a key that only such a file has, in the order in which they are looked for.
READERS: dict[str, Callable[[Path, dict[str, Any]], object]] = {
    "apiVersion": _object,
    "homes": lambda path, _: read_file(path, SlurmSettings, executor="slurm"),
    "mail": lambda _, document: NotificationSettings.model_validate(document),
    "callback": lambda _, document: NamedProfile.model_validate(document),
    "steps": _pipeline,
    "triggers": _schedule,
    "roles": _job,
    "run": _job,
    "jobs": _chart_values,
    "trainjobs": _chart_values,
    "agent": _chart_values,
    "hibernation": _chart_values,
    "admissionPolicies": _chart_values,
    "alerts": _chart_values,
    "scheduler": _chart_values,
    "pools": lambda path, _: read_config(path),
    "teams": lambda path, _: read_config(path),
}


@pytest.mark.parametrize("place", OURS)
def test_a_block_is_what_its_reader_takes(place: str, tmp_path: Path) -> None:
    path = tmp_path / "snippet.yaml"
    path.write_text(BLOCKS[place])
    document = yaml.safe_load(BLOCKS[place])
    reader = next(READERS[key] for key in READERS if key in document)
    reader(path, document)


def test_a_wrong_key_would_be_found(tmp_path: Path) -> None:
    path = tmp_path / "snippet.yaml"
    path.write_text("pools:\n- {name: gpu, gpu_sort: A100}\n")
    with pytest.raises(Exception, match="gpu_sort"):
        READERS["pools"](path, {})
    with pytest.raises(jsonschema.ValidationError, match="enabeld"):
        _chart_values(path, {"alerts": {"enabeld": True}})


def test_what_is_said_to_be_of_others_is_there() -> None:
    assert BLOCKS.keys() >= OF_OTHERS
    for place in OF_OTHERS:
        assert all(yaml.safe_load_all(BLOCKS[place])), place
    assert len(OURS) > 25
