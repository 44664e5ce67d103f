"""What the two kinds of objects say, and the one translation of each into what the API takes.

A TrainingJob's spec is the very document that ``gpucommons submit -f`` takes, with the same field
names, so a file can be carried from one to the other; the API's models check both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from gpucommons.scheduler.client.documents.jobs import spec_of
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models import JobRequest, JobView, TeamModel, UserName
from gpucommons.scheduler.models.jobs.jobs import OBJECT_LABEL
from gpucommons.scheduler.models.text.field_errors import listed, mistakes

GROUP = "gpucommons.io"
VERSION = "v1alpha1"
JOBS = "trainingjobs"
TEAMS = "teams"
#: On a namespace: the team that pays for what is submitted in it. Whoever may label namespaces
#: decides that, so it is no field of the objects inside.
TEAM_LABEL = "gpucommons.io/team"


class TrainingJobSpec(JobRequest):
    """A job as the command line, the panel and the API take it, with its user."""

    #: Whose job it is; an admission policy holds it to the one who asks.
    user: UserName


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectRef:
    """One object: where it is, and which of those that ever had this name."""

    namespace: str
    name: str
    uid: str

    @property
    def label(self) -> str:
        """As it is written on the job."""
        return f"{self.namespace}/{self.name}/{self.uid}"


def ref_of(body: Mapping[str, Any]) -> ObjectRef:
    """Which object this is."""
    meta = body["metadata"]
    return ObjectRef(namespace=meta.get("namespace", ""), name=meta["name"], uid=meta["uid"])


def made_of(view: JobView) -> str:
    """The uid of the TrainingJob that a job was made of; empty for every other job."""
    label = label_of(view)
    # Objects of other kinds have their kind before it.
    return "" if ":" in label else label.rpartition("/")[2]


def label_of(view: JobView) -> str:
    """The object that a job was made of; empty where it was made of none."""
    return "" if view.request is None else view.request.labels.get(OBJECT_LABEL, "")


def job_request(spec: Mapping[str, Any], ref: ObjectRef, *, team: str | None) -> JobRequest:
    """The request that a TrainingJob makes in a namespace of this team.

    Raises
    ------
    BadRequest
        When the namespace has no team, the object names another, or the spec is not one.
    """
    if team is None:
        message = (
            f"The namespace {ref.namespace} belongs to no team. An admin gives it one: kubectl"
            f" label namespace {ref.namespace} {TEAM_LABEL}=TEAM"
        )
        raise BadRequest(message)
    if spec.get("team", team) != team:
        message = (
            f"In the namespace {ref.namespace} {team} pays, not {spec['team']}: leave team out, or"
            " apply it in a namespace of that team."
        )
        raise BadRequest(message)
    manifest = {"kind": "TrainingJob", "metadata": {"name": ref.name}, "spec": spec}
    document = {**spec_of(manifest), "team": team}
    document["labels"] = {**document.get("labels", {}), OBJECT_LABEL: ref.label}
    try:
        checked = TrainingJobSpec.model_validate(document)
    except ValidationError as error:
        raise BadRequest(_words(error)) from None
    return JobRequest.model_validate(checked.model_dump(exclude_unset=True))


def team_model(spec: Mapping[str, Any], name: str, *, managed_by: str) -> TeamModel:
    """The team that a Team object describes.

    Raises
    ------
    BadRequest
        When the spec is not one.
    """
    try:
        return TeamModel.model_validate({**spec, "name": name, "managed_by": managed_by})
    except ValidationError as error:
        raise BadRequest(_words(error)) from None


def _words(error: ValidationError) -> str:
    """The first mistakes, each with the path of its field."""
    found = (
        f"spec.{'.'.join(str(part) for part in one['loc'])}: {sentence}"
        for one, sentence in mistakes(error)
    )
    return f"{listed(found, error)}."
