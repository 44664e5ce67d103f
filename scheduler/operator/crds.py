"""The two CustomResourceDefinitions, made of the API's models.

``python -m gpucommons.scheduler.operator.crds FOLDER`` writes them into the chart; a test fails
when what lies there is not what the models say.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from gpucommons.scheduler.models import TeamModel
from gpucommons.scheduler.operator import rules
from gpucommons.scheduler.operator.descriptions import JOB, QUOTA, ROLE, TEAM
from gpucommons.scheduler.operator.objects import GROUP, JOBS, TEAMS, VERSION, TrainingJobSpec
from gpucommons.scheduler.operator.schema import Schema, structural

_RULES = "x-kubernetes-validations"
#: Paths need a bound, or a rule that splits them would be too costly to admit.
_LONGEST_PATH = 512
#: One of these is ours.
_MOST_LABELS = 31


def job_schema() -> Schema:
    """What a TrainingJob's spec may hold."""
    schema = structural(TrainingJobSpec)
    _describe(schema, JOB)
    for path in ("working_dir", "results_to"):
        schema["properties"][path]["maxLength"] = _LONGEST_PATH
    schema["properties"]["labels"]["maxProperties"] = _MOST_LABELS
    schema[_RULES] = rules.JOB_SPEC
    role = schema["properties"]["roles"]["items"]
    _describe(role, ROLE)
    role[_RULES] = rules.JOB_ROLE
    return schema


def team_schema() -> Schema:
    """What a Team's spec may hold."""
    schema = structural(TeamModel)
    for field in ("name", "managed_by"):
        del schema["properties"][field]
    del schema["required"]
    _describe(schema, TEAM)
    quota = schema["properties"]["quotas"]["additionalProperties"]
    _describe(quota, QUOTA)
    quota[_RULES] = rules.TEAM_QUOTA
    return schema


def _describe(schema: Schema, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        schema["properties"][name]["description"] = text


def _text() -> Schema:
    return {"type": "string"}


def _integer() -> Schema:
    return {"type": "integer", "format": "int64"}


def _time() -> Schema:
    return {"type": "string", "format": "date-time"}


def _conditions() -> Schema:
    condition = {
        "type": "object",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": _text(),
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": _text(),
            "message": _text(),
            "lastTransitionTime": _time(),
            "observedGeneration": _integer(),
        },
    }
    return {
        "type": "array",
        "items": condition,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }


def job_status_schema() -> Schema:
    """What the operator says of a job."""
    texts = ("state", "team", "job", "jobId", "gpus", "class", "reason", "node", "progress")
    fields: Schema = {name: _text() for name in texts}
    fields |= {name: _integer() for name in ("observedGeneration", "place", "attempts")}
    fields |= {name: _time() for name in ("submittedAt", "startedAt", "endedAt")}
    return {"type": "object", "properties": fields | {"conditions": _conditions()}}


def team_status_schema() -> Schema:
    """What the operator says of a team."""
    fields = {"observedGeneration": _integer(), "ready": _text(), "reason": _text()}
    return {"type": "object", "properties": fields | {"conditions": _conditions()}}


def _column(name: str, path: str, kind: str = "string", *, wide: bool = False) -> Schema:
    return {"name": name, "type": kind, "jsonPath": path} | ({"priority": 1} if wide else {})


_AGE = _column("Age", ".metadata.creationTimestamp", "date")


def trainingjob_crd() -> Schema:
    """The CRD of TrainingJob."""
    columns = [
        _column("State", ".status.state"),
        _column("Place", ".status.place", "integer"),
        _column("GPUs", ".status.gpus"),
        _AGE,
        _column("Job", ".status.job", wide=True),
        _column("User", ".spec.user", wide=True),
        _column("Node", ".status.node", wide=True),
        _column("Reason", ".status.reason"),
    ]
    whole = _object(job_schema(), job_status_schema(), rules.JOB_OBJECT)
    names = {"kind": "TrainingJob", "plural": JOBS, "singular": "trainingjob", "shortNames": ["tj"]}
    return _crd(names, "Namespaced", whole, columns)


def team_crd() -> Schema:
    """The CRD of Team."""
    columns = [
        _column("Ready", ".status.ready"),
        _column("Parent", ".spec.parent"),
        _AGE,
        _column("Reason", ".status.reason"),
    ]
    whole = _object(team_schema(), team_status_schema(), rules.TEAM_OBJECT)
    names = {"kind": "Team", "plural": TEAMS, "singular": "team"}
    return _crd(names, "Cluster", whole, columns)


def _object(spec: Schema, status: Schema, about_all: list[rules.Rule]) -> Schema:
    return {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": _text(),
            "kind": _text(),
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        _RULES: about_all,
    }


def _crd(names: Schema, scope: str, schema: Schema, columns: list[Schema]) -> Schema:
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {**names, "listKind": f"{names['kind']}List", "categories": ["gpucommons"]},
            "versions": [version],
        },
    }


class _Plain(yaml.SafeDumper):
    """Written out in full: aliases are hard to read and to compare."""

    def ignore_aliases(self, data: object) -> bool:
        """Every value is written where it is used."""
        return True


def files() -> dict[str, str]:
    """The two files of the chart, by name."""
    head = "# Made by `python -m gpucommons.scheduler.operator.crds`; do not edit.\n"
    return {
        f"{crd['spec']['names']['plural']}.yaml": head
        + yaml.dump(crd, Dumper=_Plain, sort_keys=False, width=98, allow_unicode=True)
        for crd in (team_crd(), trainingjob_crd())
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files into the folder that is named."""
    parser = argparse.ArgumentParser(description="Write the CustomResourceDefinitions.")
    parser.add_argument("folder", type=Path, help="where to")
    folder: Path = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
