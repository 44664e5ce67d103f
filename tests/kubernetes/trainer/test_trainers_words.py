"""Our words are those of Trainer 2.0.0: read in its own sources, CRDs and tests."""

import re

import pytest
import yaml

from gpucommons.scheduler.adapters.trainer import manifests, trainjobs
from gpucommons.scheduler.adapters.trainer.settings import (
    SentJobs,
    TrainerNamespace,
    TrainerPool,
    TrainerSettings,
)
from gpucommons.scheduler.core.model.types import Kind, PoolName, Role, Spec, TeamName, UserName
from gpucommons.scheduler.errors import BadRequest
from tests.kubernetes.trainer import trainer_module
from tests.scheduler.adapters.trainer import fake_trainer


def source(name: str) -> str:
    return (trainer_module.trainer() / name).read_text()


def test_names_are_those_of_its_constants() -> None:
    constants = source("pkg/constants/constants.go")
    for name, ours in (
        ("LabelTrainJobAncestor", trainjobs.ANCESTOR),
        ("AncestorTrainer", trainjobs.TRAINER),
        ("Node", trainjobs.NODE),
    ):
        assert re.search(rf'\b{name}\s+string = "{re.escape(ours)}"', constants)
    types = source("pkg/apis/trainer/v1alpha1/trainjob_types.go")
    assert trainjobs.BUILT_IN in types
    for condition in ("Complete", "Failed", "Suspended"):
        assert f'string = "{condition}"' in types


def test_a_pod_is_told_by_the_names_that_its_tests_expect() -> None:
    tests = source("test/integration/controller/trainjob_controller_test.go")
    # Of the Job NAME-node-0, as in the address that torchrun is told.
    assert 'fmt.Sprintf("alpha-%s-0-0.alpha", constants.Node)' in tests
    runtime = trainer_module.runtime("torch-distributed")
    trainjob = {"metadata": {"name": "alpha", "uid": "u"}, "spec": {}}
    pod = fake_trainer.pod_of(trainjob, runtime, 0)
    assert pod["metadata"]["generateName"] == "alpha-node-0-0-"


def test_overrides_are_changed_only_while_it_is_suspended() -> None:
    webhook = source("pkg/runtime/framework/plugins/jobset/jobset.go")
    assert "PodSpecOverrides can only be modified when the TrainJob is suspended" in webhook
    trainjob = {"metadata": {"resourceVersion": "1"}, "spec": {"suspend": False}}
    assert trainjobs.taking_charge(trainjob, "node")["spec"]["suspend"] is True
    assert "podSpecOverrides" not in trainjobs.resuming(trainjob, "a", now_ms=1)["spec"]
    # A job stands in one override alone.
    assert "field.Duplicate(podSpecOverridePath, targetJob.Name)" in webhook


def test_every_field_that_we_write_is_one_of_its_crd() -> None:
    file = trainer_module.crds() / "trainer.kubeflow.org_trainjobs.yaml"
    (version,) = yaml.safe_load(file.read_text())["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec = Spec(
        kind=Kind.TRAINING,
        name="mnist",
        team=TeamName("vision"),
        owner=UserName("ann"),
        submitted_by=UserName("ann"),
        pools=(PoolName("trainers"),),
        roles=(Role(count=2, milli_gpu=1000, command=("python",)),),
        environment="img:1",
        env={"A": "1"},
    )
    notes = trainjobs.notes_for("a-1", now_ms=1)
    sent = SentJobs(namespace="sent", any_image=True)
    made = manifests.trainjob_of(spec, notes, sent, target="node", resource="nvidia.com/gpu")
    assert unknown(made["spec"], schema) == []


def unknown(value: object, schema: dict[str, object], path: str = "spec") -> list[str]:
    """Paths that a schema does not have."""
    if isinstance(value, list):
        items: dict[str, object] = schema.get("items", {})  # type: ignore[assignment]
        return [one for part in value for one in unknown(part, items, f"{path}[]")]
    if not isinstance(value, dict) or "additionalProperties" in schema:
        return []
    known: dict[str, dict[str, object]] = schema.get("properties", {})  # type: ignore[assignment]
    return [
        one
        for key, part in value.items()
        for one in (
            unknown(part, known[key], f"{path}.{key}") if key in known else [f"{path}.{key}"]
        )
    ]


def test_its_own_runtimes_can_wait_in_line_but_for_mpi() -> None:
    settings = TrainerSettings(
        namespaces={"n": TrainerNamespace(teams=["vision"], user="ann")},
        pools={"trainers": TrainerPool()},
    )
    trainjob = {
        "metadata": {"name": "a", "namespace": "n"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 4}},
    }
    runtime = trainer_module.runtime("torch-distributed")
    asked = trainjobs.asked_for(trainjob, runtime, settings)
    assert (asked.nodes, asked.milli_gpu, asked.target) == (4, 0, "node")
    for name in ("mpi-distributed", "deepspeed-distributed", "mlx-distributed"):
        with pytest.raises(BadRequest, match="by MPI"):
            trainjobs.training_of(trainer_module.runtime(name))
