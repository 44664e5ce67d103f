"""What the panel takes an answer of the server to be is what the server sends.

The panel's types are written by hand. Here each is read and compared with the model that it stands for: its
fields are there, may be null where the server may send null, and words of a choice are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from gpucommons.labextension import mlflow_runs, submission
from gpucommons.labextension.routes import advice, pipelines
from gpucommons.scheduler import models
from gpucommons.scheduler.models.jobs import profiles, schedules
from gpucommons.scheduler.sweeps.sweep import FACTOR

SOURCE = Path(__file__).parents[2] / "labextension" / "src" / "server"
FIELD = re.compile(r"\s*(?P<name>\w+)(?P<optional>\??):\s*(?P<type>.*)", re.DOTALL)

#: Views: what the server sends.
SENT: dict[str, type[BaseModel]] = {
    "ISlowPlace": models.SlowPlaceView,
    "IAdvice": models.AdviceView,
    "IAttempt": models.AttemptView,
    "IBlocker": models.BlockerView,
    "ICheckpoint": models.CheckpointView,
    "ICurve": models.Curve,
    "ICurvePoint": models.CurvePoint,
    "ICurveOutlook": models.CurveOutlook,
    "IDataAdvice": models.DataAdvice,
    "IDrill": models.DrillView,
    "IEnvironments": models.EnvironmentList,
    "IEvent": models.EventView,
    "IFigures": models.SweepFigures,
    "IFilesPreview": submission.Preview,
    "IFolderOfSteps": pipelines.FolderPreview,
    "IForecast": models.ForecastView,
    "IIdle": models.IdleView,
    "IImprovement": models.ImprovementView,
    "IJob": models.JobView,
    "IJobUse": models.JobUse,
    "ILease": models.LeaseView,
    "ILoaderChoice": models.LoaderChoiceView,
    "ILoadingHint": models.LoadingHintView,
    "IOpenRange": models.OpenRangeView,
    "IOutlookSize": models.OutlookSize,
    "IPackedFile": submission.FileView,
    "IParted": models.PartedView,
    "IPartOf": models.PartOfView,
    "IPipeline": models.PipelineView,
    "IPipelineFile": pipelines.PipelinePreview,
    "IPipelineList": models.PipelineList,
    "IPlan": models.PlanView,
    "IPlanAnew": models.PlanAnewView,
    "IPlanRecord": models.PlanRecord,
    "IPool": models.PoolView,
    "IPoolList": models.PoolList,
    "IProfile": models.ProfileView,
    "IProgress": models.ProgressView,
    "IPromoted": schedules.PromotedView,
    "IQuote": models.Quote,
    "IRange": models.RangeView,
    "IReason": models.ReasonView,
    "IResults": models.ResultsView,
    "IRung": models.RungView,
    "ISchedule": models.ScheduleView,
    "IScheduleList": models.ScheduleList,
    "IScheduleRun": models.ScheduleRunView,
    "ISlice": models.SliceView,
    "IStep": models.StepView,
    "IStepOfFile": pipelines.StepPreview,
    "IStop": models.StopView,
    "ISweep": models.SweepView,
    "ISweepList": models.SweepList,
    "ITeam": models.TeamView,
    "ITeamUse": models.TeamUseView,
    "ITightness": models.TightnessView,
    "ITogether": models.TogetherView,
    "ITogetherJob": models.TogetherJob,
    "ITogetherPool": models.TogetherPool,
    "ITracked": mlflow_runs.TrackedRuns,
    "ITrackedRun": mlflow_runs.TrackedRun,
    "ITrial": models.TrialView,
    "ITrigger": models.TriggerView,
    "IUseSpan": models.UseSpan,
    "IWayToGoOn": models.WayToGoOnView,
    "IWhoAmI": models.WhoAmI,
}
#: Requests: what it takes.
TAKEN: dict[str, type[BaseModel]] = {
    "IJobRequest": models.JobRequest,
    "ILoaderSettings": models.LoaderSettings,
    "IPlanQuestion": advice.PlanQuestion,
    "IProfileJob": profiles.ProfileJob,
    "IRole": models.RoleRequest,
    "ISubmission": submission.Submission,
}
#: Parts of messages that no model makes.
WITHOUT_MODEL = {
    "IJobOffer",
    "ILoaded",
    "ILost",
    "ILostKernel",
    "IStopped",
    "IStored",
    "IUsageSample",
    "IWokenKernel",
}


class Field(NamedTuple):
    """A field of an interface."""

    optional: bool
    type: str

    @property
    def nullable(self) -> bool:
        return "null" in [one.strip() for one in _parts(self.type, "|")]


def _parts(text: str, at: str) -> Iterator[str]:
    """Split where no bracket is open."""
    depth, part = 0, ""
    for character in text:
        depth += (character in "{([<") - (character in "})]>")
        if character == at and not depth:
            yield part
            part = ""
        else:
            part += character
    yield part


def _body(text: str) -> str:
    """Up to the bracket that closes what was open before."""
    depth = 1
    for number, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if not depth:
            return text[:number]
    return text


def _interfaces() -> dict[str, dict[str, Field]]:
    found = {}
    for path in sorted(SOURCE.glob("*.ts")):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.DOTALL)
        for match in re.finditer(r"\binterface (I\w+)[^{]*\{", text):
            if path.name.endswith(".spec.ts"):
                continue
            parts = _parts(_body(text[match.end() :]), ";")
            fields = filter(None, map(FIELD.fullmatch, parts))
            found[match[1]] = {
                one["name"]: Field(bool(one["optional"]), " ".join(one["type"].split()))
                for one in fields
            }
    return found


INTERFACES = _interfaces()


def _may_be_null(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        return any(map(_may_be_null, get_args(annotation)))
    return annotation in (None, NoneType, Any)


def _words(annotation: Any) -> set[str]:
    """The words of a choice; none where it is no choice."""
    if get_origin(annotation) is Literal:
        return {one for one in get_args(annotation) if isinstance(one, str)}
    if get_origin(annotation) in (Union, UnionType):
        return set().union(*map(_words, get_args(annotation)))
    return set()


def test_each_type_of_the_panel_stands_for_a_model() -> None:
    assert set(INTERFACES) == {*SENT, *TAKEN, *WITHOUT_MODEL}


@pytest.mark.parametrize("name", [*SENT, *TAKEN])
def test_what_the_panel_reads_is_a_field_of_the_model(name: str) -> None:
    model = (SENT | TAKEN)[name]
    assert INTERFACES[name], "no field was read"
    assert set(INTERFACES[name]) <= {*model.model_fields, *model.model_computed_fields}


@pytest.mark.parametrize("name", SENT)
def test_what_may_be_null_is_so_for_the_panel_too(name: str) -> None:
    fields = SENT[name].model_fields
    shown = {one: field.nullable for one, field in INTERFACES[name].items() if one in fields}
    assert shown == {one: _may_be_null(fields[one].annotation) for one in shown}


@pytest.mark.parametrize("name", TAKEN)
def test_what_a_request_must_have_is_never_left_out(name: str) -> None:
    needed = {one for one, field in TAKEN[name].model_fields.items() if field.is_required()}
    assert needed <= {one for one, field in INTERFACES[name].items() if not field.optional}


@pytest.mark.parametrize("name", [*SENT, *TAKEN])
def test_a_choice_has_the_same_words(name: str) -> None:
    fields = (SENT | TAKEN)[name].model_fields
    for one, field in INTERFACES[name].items():
        said = set(re.findall(r"'([^']+)'", field.type)) if "{" not in field.type else set()
        known = _words(fields[one].annotation) if one in fields else set()
        assert not said or not known or said == known, one


def test_the_form_shows_the_rungs_of_the_factor_that_the_server_takes() -> None:
    source = (SOURCE.parent / "submission" / "sweep.ts").read_text()
    assert re.findall(r"const FACTOR = (\d+);", source) == [str(FACTOR)]
