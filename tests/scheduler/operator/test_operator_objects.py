"""What the operator makes of objects, and of the scheduler's answers: no cluster needed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpucommons.scheduler.client.documents.jobs import read_job
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models import AttemptView, JobRequest, JobView, ReasonView, TeamModel
from gpucommons.scheduler.operator import crds, status
from gpucommons.scheduler.operator.objects import (
    OBJECT_LABEL,
    ObjectRef,
    TrainingJobSpec,
    job_request,
    team_model,
)
from gpucommons.scheduler.operator.status import Said

CHART = Path(__file__).parents[3] / "deploy/helm/gpucommons"
REF = ObjectRef(namespace="vision-jobs", name="digits", uid="u-1")
SPEC: dict[str, Any] = {"user": "ann", "roles": [{"command": ["python", "train.py"]}]}


def test_the_crds_in_the_chart_are_those_of_the_models() -> None:
    for name, text in crds.files().items():
        lying_there = (CHART / "files/crds" / name).read_text()
        assert lying_there == text, "python -m gpucommons.scheduler.operator.crds FOLDER"


@pytest.mark.parametrize(
    ("schema", "model"), [(crds.job_schema(), TrainingJobSpec), (crds.team_schema(), TeamModel)]
)
def test_every_field_of_the_api_is_in_the_crd_and_explained(schema: Any, model: Any) -> None:
    ours = {"name", "managed_by"} if model is TeamModel else set()
    assert schema["properties"].keys() == model.model_fields.keys() - ours
    assert all(one.get("description") for one in schema["properties"].values())


def test_schemas_are_structural() -> None:
    allowed = {
        "type", "format", "description", "enum", "pattern", "properties", "items", "required",
        "additionalProperties", "x-kubernetes-validations", "minLength", "maxLength", "minItems",
        "maxItems", "maxProperties", "minimum", "maximum", "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
    }  # fmt: skip

    def walk(node: Any) -> None:
        assert node.keys() <= allowed
        for child in [*node.get("properties", {}).values(), node.get("items")]:
            if child is not None:
                walk(child)
        if isinstance(node.get("additionalProperties"), dict):
            walk(node["additionalProperties"])

    for crd in (crds.team_crd(), crds.trainingjob_crd()):
        (version,) = crd["spec"]["versions"]
        walk(version["schema"]["openAPIV3Schema"])


def test_an_object_asks_for_what_the_same_file_asks_for_at_the_command_line() -> None:
    document = {**SPEC, "name": "mnist", "priority": "high", "env": {"A": "1"}}
    request = job_request(document, REF, team="vision")
    plain = JobRequest.model_validate({**document, "team": "vision"})
    assert request.model_copy(update={"labels": {}}) == plain
    assert request.labels == {OBJECT_LABEL: "vision-jobs/digits/u-1"}
    assert "max_run_s" not in request.model_fields_set


def test_the_command_line_takes_the_manifest_itself(tmp_path: Path) -> None:
    manifest = {
        "apiVersion": "gpucommons.io/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "digits"},
        "spec": {**SPEC, "priority": "high"},
    }
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(manifest))
    _job, request, content = read_job(path, max_bytes=1)
    assert content is None
    from_object = job_request(manifest["spec"], REF, team="vision")  # type: ignore[arg-type]
    assert request == from_object.model_copy(update={"labels": {}, "team": None})
    path.write_text(yaml.safe_dump({**manifest, "kind": "Team"}))
    with pytest.raises(BadRequest, match="Team is no TrainingJob"):
        read_job(path, max_bytes=1)


def test_the_object_names_the_job() -> None:
    assert job_request(SPEC, REF, team="vision").name == "digits"


@pytest.mark.parametrize(
    ("spec", "team", "says"),
    [
        (SPEC, None, "kubectl label namespace vision-jobs"),
        ({**SPEC, "team": "nlp"}, "vision", "vision pays, not nlp"),
        ({**SPEC, "speed": 3}, "vision", "spec.speed"),
        ({"roles": SPEC["roles"]}, "vision", "spec.user"),
        ({**SPEC, "labels": {f"l{n}": "" for n in range(32)}}, "vision", "spec.labels"),
    ],
)
def test_what_cannot_be_asked_is_said(spec: dict[str, Any], team: str | None, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        job_request(spec, REF, team=team)


def test_a_team_says_who_keeps_it() -> None:
    assert team_model({"members": ["ann"]}, "vision", managed_by="op").managed_by == "op"
    with pytest.raises(BadRequest, match=r"spec\.quotas"):
        team_model({"quotas": {"gpu": {"fixed": 1}}}, "vision", managed_by="op")


def test_times_of_conditions_change_with_the_verdict_alone() -> None:
    first = status.conditions(
        [], Said(kind="Ready", holds=False, reason="A", message="a"), now_ms=0
    )
    again = status.conditions(
        first, Said(kind="Ready", holds=False, reason="B", message="b"), now_ms=9_000
    )
    assert again[0]["lastTransitionTime"] == first[0]["lastTransitionTime"]
    assert again[0]["message"] == "b"
    turned = status.conditions(
        again, Said(kind="Ready", holds=True, reason="C", message="c"), now_ms=9_000
    )
    assert turned[0]["lastTransitionTime"] == "1970-01-01T00:00:09Z"


def a_view(state: str, **changes: Any) -> JobView:
    fields = {
        "id": "i", "name": "digits-1", "kind": "training", "team": "vision", "owner": "ann",
        "submitted_by": "op", "state": state, "pools": ["gpu"], "milli_gpu": 500, "workers": 1,
        "priority": "normal", "over_quota": True, "submitted_ms": 0, "since_ms": 0,
    }  # fmt: skip
    return JobView.model_validate(fields | changes)


def test_a_waiting_job_has_a_place_and_a_reason() -> None:
    reason = ReasonView(code="share", text="Others have more claim.")
    found = status.of_job(a_view("queued", position=3, reason=reason), {}, now_ms=0)
    assert (found["place"], found["gpus"], found["reason"]) == (3, "½", "Others have more claim.")


def test_an_ended_job_has_none_and_is_finished() -> None:
    attempt = AttemptView(
        id="a", number=1, state="ended", hold_class="guaranteed", nodes=["n1"], reserved_ms=0,
        started_ms=2_000,
    )  # fmt: skip
    view = a_view("failed", position=1, ended_ms=4_000, ended_text="exit 1", attempts=[attempt])
    found = status.of_job(view, {}, now_ms=5_000)
    assert (found["place"], found["reason"], found["node"]) == (None, "exit 1", "n1")
    assert (found["startedAt"], found["endedAt"]) == (
        "1970-01-01T00:00:02Z",
        "1970-01-01T00:00:04Z",
    )
    finished = {one["type"]: one for one in found["conditions"]}["Finished"]
    assert (finished["reason"], finished["message"]) == ("Failed", "exit 1")


def test_a_status_that_says_the_same_is_not_written() -> None:
    view = a_view("running")
    first = status.of_job(view, {}, now_ms=0)
    seen = {key: value for key, value in first.items() if value is not None}
    assert status.changes(seen, status.of_job(view, seen, now_ms=7_000)) == {}


def test_every_status_field_is_in_the_crd() -> None:
    known = crds.job_status_schema()["properties"].keys()
    assert status.of_job(a_view("running"), {}, now_ms=0).keys() <= known
    said = Said(kind="Ready", holds=True, reason="A", message="a")
    assert (
        status.of_team({}, said, now_ms=0).keys() <= crds.team_status_schema()["properties"].keys()
    )


@pytest.mark.parametrize("path", sorted((CHART / "ci").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_charts_examples_hold_teams_as_the_api_takes_them(path: Path) -> None:
    config = yaml.safe_load(path.read_text()).get("config", {})
    for team in config.get("teams", []):
        TeamModel.model_validate(team)
