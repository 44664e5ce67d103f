"""The image of a job: its notebook's own by its digest, and the rules that hold for that digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubespawner.slugs import is_valid_label, safe_slug
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.environments.images import (
    ImageNotKnown,
    Images,
    is_pinned,
    pinned,
)
from gpucommons.scheduler.errors import Misconfigured, PolicyRefused
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError
from gpucommons.scheduler.executors.kubernetes.cluster_state.notebook_images import NotebookImages
from gpucommons.scheduler.service import job_quote
from gpucommons.scheduler.service.administration import settings
from gpucommons.scheduler.service.jobs import environments, jobs, run_again

HEX = "a" * 64
OWN = f"registry.example/lab@sha256:{HEX}"
TORCH = f"registry.example/torch@sha256:{'b' * 64}"


def notebook(image_id: str = OWN, server: str = "", **meta: Any) -> dict[str, Any]:
    notes = {"gpucommons.io/user-name": "ann", "gpucommons.io/server-name": server}
    return {
        "metadata": {"annotations": notes, **meta},
        "spec": {"containers": [{"name": "proxy"}, {"name": "notebook"}]},
        "status": {
            "containerStatuses": [
                {"name": "proxy", "imageID": TORCH},
                {"name": "notebook", "imageID": image_id},
            ]
        },
    }


class Api:
    """An API server with these pods, or one that refuses."""

    def __init__(self, *pods: Mapping[str, Any], refuses: bool = False) -> None:
        self.pods, self.refuses = pods, refuses
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        self.asked.append((path, query))
        if self.refuses:
            raise ApiError(403, "Forbidden", "no")
        return {"items": list(self.pods)}


def of(*pods: Mapping[str, Any], refuses: bool = False, namespace: str | None = "hub") -> Any:
    api: Any = Api(*pods, refuses=refuses)
    return NotebookImages(api, namespace)


def world_with(tmp_path: Path, images: Images) -> ServiceWorld:
    world = ServiceWorld(tmp_path)
    world.service = replace(world.service, environments=images)
    return world


def submitted(world: ServiceWorld, *, server: str | None = "", **changes: Any) -> models.JobView:
    ann = replace(world.principal("ann"), server_name=server)
    return jobs.submit(world.service, ann, a_request(**changes), key=None)


def image_of(view: models.JobView) -> str:
    assert view.request is not None
    return view.request.environment


def allow(world: ServiceWorld, *words: str) -> None:
    config = models.ConfigModel.model_validate({"policy": {"environments": list(words)}})
    done(settings.put_config(world.service, world.admin, config))


@pytest.mark.parametrize(
    ("image_id", "image"),
    [
        (OWN, OWN),
        (f"docker-pullable://{OWN}", OWN),
        (f"localhost:5000/a/b-c__d@sha256:{HEX}", f"localhost:5000/a/b-c__d@sha256:{HEX}"),
        (f"sha256:{HEX}", None),
        ("", None),
        ("registry.example/lab:latest", None),
        (f"registry.example/lab:latest@sha256:{HEX}", None),
        (f"registry.example/lab@sha256:{HEX.upper()}", None),
        (f"{OWN}0", None),
        (f"{OWN}\n", None),
        (f" {OWN}", None),
        (f"registry.example/../lab@sha256:{HEX}", None),
        (f"@sha256:{HEX}", None),
    ],
)
def test_only_a_registrys_digest_pins_an_image(image_id: str, image: str | None) -> None:
    assert pinned(image_id) == image
    assert image is None or is_pinned(image)


def test_the_scheduler_reads_it_from_the_notebooks_own_container() -> None:
    found = of(notebook(TORCH, server="other"), notebook())
    assert found("ann", "") == OWN
    assert found("ann", "other") == TORCH
    ((path, query), *_) = found._connection.asked
    assert path == "/api/v1/namespaces/hub/pods"
    assert query["labelSelector"] == "gpucommons.io/kind=notebook,gpucommons.io/user=ann"


@pytest.mark.parametrize("user", ["ann", "Ann.B", "a--b", "x" * 63, "a@b", "1a", "a-"])
def test_users_are_found_by_the_label_that_the_spawner_writes(user: str) -> None:
    found = of()
    with pytest.raises(ImageNotKnown):
        found(user, "")
    ((_, query),) = found._connection.asked
    label = safe_slug(user, is_valid=is_valid_label)
    assert query["labelSelector"].endswith(f"gpucommons.io/user={label}")


@pytest.mark.parametrize(
    "unknown",
    [
        of(),
        of(notebook(), namespace=None),
        of(notebook(), refuses=True),
        of(notebook(f"sha256:{HEX}")),
        of(notebook(deletionTimestamp="2026-11-23T00:00:00Z")),
        of({**notebook(), "status": {}}),
        of(notebook(server="other")),
    ],
)
def test_what_cannot_be_found_out_is_said_at_submit(tmp_path: Path, unknown: Any) -> None:
    with pytest.raises(ImageNotKnown):
        unknown("ann", "")
    world = world_with(tmp_path, Images(images={"": "lab:1"}, of_notebook=unknown))
    view = submitted(world)
    assert image_of(view) == ""
    (warning,) = view.warnings
    assert "could not be found out" in warning
    assert "lab:1" in warning
    without = world_with(tmp_path / "2", Images(images={"torch": TORCH}, of_notebook=unknown))
    with pytest.raises(Misconfigured, match="image of this notebook is not known: name one of"):
        submitted(without)


def test_a_job_runs_in_the_image_of_its_notebook_and_from_elsewhere_in_the_default(
    tmp_path: Path,
) -> None:
    world = world_with(tmp_path, Images(images={"": "lab:1"}, of_notebook=of(notebook())))
    view = submitted(world)
    assert (image_of(view), view.warnings) == (OWN, [])
    elsewhere = submitted(world, server=None)
    assert (image_of(elsewhere), elsewhere.warnings) == ("", [])
    ann = replace(world.principal("ann"), server_name="")
    assert environments.environments(world.service, ann).default == OWN
    assert environments.environments(world.service, world.principal("ann")).default == ""
    assert job_quote.quote_job(world.service, ann, a_request()).warnings == []


def test_a_digest_may_be_named_where_it_is_the_notebooks_own_or_the_admins(tmp_path: Path) -> None:
    world = world_with(
        tmp_path, Images(images={"": "lab:1", "torch": TORCH}, of_notebook=of(notebook()))
    )
    assert image_of(submitted(world, environment=OWN)) == OWN
    assert image_of(submitted(world, environment=TORCH, server=None)) == TORCH
    for asked in (
        f"evil.example/lab@sha256:{HEX}",
        f"registry.example/lab@sha256:{'c' * 64}",
        "registry.example/lab:latest",
    ):
        with pytest.raises(Misconfigured, match="environment: "):
            submitted(world, environment=asked)
    with pytest.raises(Misconfigured, match="not the image of the notebook"):
        submitted(world, environment=OWN, server=None)


@pytest.mark.parametrize(
    "asked",
    [
        "registry.example/lab:latest",
        "registry.example/lab",
        f"evil.example/lab@sha256:{HEX}",
        f"evil.example/registry.example/lab@sha256:{HEX}",
        f"registry.example/lab:1@sha256:{HEX}",
        "torch",
    ],
)
def test_what_is_not_the_digest_that_is_allowed_is_refused(tmp_path: Path, asked: str) -> None:
    images = Images(images={"": "lab:1", "torch": "torch:2"}, any_image=True)
    world = world_with(tmp_path, images)
    allow(world, OWN)
    assert image_of(submitted(world, environment=OWN)) == OWN
    with pytest.raises(PolicyRefused, match="policy environments"):
        submitted(world, environment=asked)


@pytest.mark.parametrize("asked", ["a b", f"{OWN}@sha256:{HEX}", "../x", "$(id)", f"{OWN};", "-x"])
def test_an_odd_string_is_no_image(tmp_path: Path, asked: str) -> None:
    world = world_with(tmp_path, Images(images={"": "lab:1"}, any_image=True))
    with pytest.raises(Misconfigured, match="is no name of an image"):
        submitted(world, environment=asked)


def test_the_notebooks_image_is_no_way_around_a_policy(tmp_path: Path) -> None:
    world = world_with(tmp_path, Images(images={"": "lab:1"}, of_notebook=of(notebook())))
    allow(world, TORCH, "")
    with pytest.raises(PolicyRefused, match="policy environments"):
        submitted(world)


def test_a_rule_may_name_an_image_by_its_digest_or_by_the_admins_name(tmp_path: Path) -> None:
    images = Images(images={"": "lab:1", "lab": OWN}, of_notebook=of(notebook()))
    world = world_with(tmp_path, images)
    assert image_of(submitted(world)) == OWN
    allow(world, "lab")
    assert image_of(submitted(world)) == "lab"
    allow(world, OWN)
    assert image_of(submitted(world, environment="lab")) == OWN


def test_a_job_that_is_run_again_keeps_its_image(tmp_path: Path) -> None:
    world = world_with(tmp_path, Images(images={"": "lab:1"}, of_notebook=of(notebook())))
    pinned_one, default = submitted(world), submitted(world, server=None)
    moved = Images(images={"": "lab:1"}, of_notebook=of(notebook(TORCH)))
    world.service = replace(world.service, environments=moved)
    world.pass_time(1000)
    ann = replace(world.principal("ann"), server_name="")
    again = [
        run_again.again(world.service, ann, one.name, key=None) for one in (pinned_one, default)
    ]
    assert [image_of(one) for one in again] == [OWN, ""]
