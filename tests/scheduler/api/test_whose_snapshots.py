"""A snapshot's hash is a name and no key: who knows it neither runs, reads nor replaces it."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from service_world import ADMIN, CONFIG, ServiceWorld, an_app, done
from storages import LinkedMemory

from gpucommons.scheduler import models
from gpucommons.scheduler.environments.base import AsAsked
from gpucommons.scheduler.file_storage.folder import FolderStorage
from gpucommons.scheduler.file_storage.snapshots import StoredSnapshots
from gpucommons.scheduler.files.snapshots import Receiving, SnapshotPlace, Snapshots
from gpucommons.scheduler.principal import PrincipalKind
from gpucommons.scheduler.service.administration import settings
from gpucommons.scheduler.service.jobs import jobs

FILES = b"train.py of ann's"
SHA = hashlib.sha256(FILES).hexdigest()
#: Of files that nobody has brought.
UNKNOWN = hashlib.sha256(b"nobody's").hexdigest()
OPERATOR = "gpucommons-operator"


class Watched:
    """A place of snapshots that notes what it is asked."""

    def __init__(self, place: SnapshotPlace) -> None:
        self.place = place
        self.max_bytes = place.max_bytes
        self.asked: list[str] = []

    def receive(self, sha256: str) -> Receiving:
        self.asked.append("receive")
        return self.place.receive(sha256)

    def has(self, sha256: str) -> bool:
        self.asked.append("has")
        return self.place.has(sha256)

    def renew(self, sha256: str) -> bool:
        self.asked.append("renew")
        return self.place.renew(sha256)

    def chunks(self, sha256: str) -> Iterator[bytes]:
        self.asked.append("chunks")
        return self.place.chunks(sha256)

    def link(self, sha256: str) -> str | None:
        return self.place.link(sha256)

    def prune(self, *, needed: Callable[[str], bool], before_s: float) -> int:
        return self.place.prune(needed=needed, before_s=before_s)


PLACES: dict[str, Callable[[Path], SnapshotPlace]] = {
    "local": lambda folder: Snapshots(folder / "local"),
    "folder": lambda folder: StoredSnapshots(FolderStorage(folder / "all"), folder / "spool"),
    "bucket": lambda folder: StoredSnapshots(LinkedMemory(), folder / "spool"),
}


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Watched:
    return Watched(PLACES[request.param](tmp_path))


@pytest.fixture
def world(tmp_path: Path, place: Watched) -> ServiceWorld:
    world = ServiceWorld(tmp_path)
    # Where an environment is a folder, what a script imports is looked up in the snapshot.
    environments = AsAsked()
    environments.kind = "folder"
    world.service = replace(world.service, snapshots=place, environments=environments)
    return world


@pytest.fixture
async def http(world: ServiceWorld) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(an_app(world), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        yield client


@pytest.fixture
async def anns(http: httpx.AsyncClient, place: Watched) -> None:
    """Ann's files are here, and a job of hers runs from them."""
    assert (await upload(http, "ann")).status_code == 200
    submitted = await http.post("/v1/jobs", json=a_job(), headers=as_user("ann"))
    assert submitted.status_code == 201
    place.asked.clear()


def as_user(name: str) -> dict[str, str]:
    return {"Authorization": f"token {name}-token"}


def a_job(sha256: str = SHA, **changes: object) -> dict[str, Any]:
    return {"name": "digits", "roles": [{"command": ["cat"]}], "snapshot": sha256, **changes}


async def upload(
    http: httpx.AsyncClient, by: str, content: bytes = FILES, sha256: str = SHA
) -> httpx.Response:
    return await http.put(f"/v1/snapshots/{sha256}", content=content, headers=as_user(by))


def share(world: ServiceWorld, *, whole_hub: bool = False, shared: bool = True) -> None:
    policy = {"share_snapshots": shared}
    team = {**CONFIG["teams"][0], **({} if whole_hub else {"policy": policy})}
    config = {"teams": [team], **({"policy": policy} if whole_hub else {})}
    done(settings.put_config(world.service, world.admin, models.ConfigModel.model_validate(config)))


@pytest.mark.parametrize("who", ["bob", "alf", "ada", "root"])
@pytest.mark.parametrize("route", ["/v1/jobs", "/v1/quote"])
@pytest.mark.usefixtures("anns")
async def test_who_knows_the_hash_is_told_what_strangers_to_all_files_are_told(
    http: httpx.AsyncClient, place: Watched, who: str, route: str
) -> None:
    team = {"team": "nlp"} if who == "root" else {}
    role = {"command": ["python", "train.py"], "count": 2}
    asked = {"roles": [role], "environment": "/opt/torch", **team}
    answers = [
        await http.post(route, json=a_job(sha256, **asked), headers=as_user(who))
        for sha256 in (SHA, UNKNOWN)
    ]

    assert [answer.status_code for answer in answers] == [422, 422]
    said = [answer.json()["message"] for answer in answers]
    assert said[0].replace(SHA[:12], UNKNOWN[:12]) == said[1]
    assert "These files are none of yours here: submit from the folder" in said[0]
    assert place.asked == []  # nothing that would take longer for one that is here


@pytest.mark.usefixtures("anns")
async def test_no_other_bytes_are_taken_under_a_hash_whoever_sends_them(
    http: httpx.AsyncClient, place: Watched
) -> None:
    for who in ("ann", "bob"):
        answer = await upload(http, who, b"other bytes")
        assert answer.status_code == 422
        assert "does not match its hash" in answer.json()["message"]
    assert b"".join(place.chunks(SHA)) == FILES
    refused = await http.post("/v1/jobs", json=a_job(), headers=as_user("bob"))
    assert refused.status_code == 422


@pytest.mark.usefixtures("anns")
async def test_who_brings_the_bytes_has_them_and_does_not_learn_that_they_were_here(
    world: ServiceWorld, http: httpx.AsyncClient, place: Watched
) -> None:
    first = await upload(http, "bob")
    steps = place.asked.copy()
    new = await upload(http, "bob", b"nobody's", UNKNOWN)

    assert (first.status_code, new.status_code) == (200, 200)
    assert first.json().keys() == new.json().keys()
    assert place.asked == [*steps, *steps] == ["receive", "receive"]
    world.service.uploads.most_bytes = len(FILES) + len(b"nobody's")
    assert (await upload(http, "bob", b"x", hashlib.sha256(b"x").hexdigest())).status_code == 429
    submitted = await http.post("/v1/jobs", json=a_job(), headers=as_user("bob"))
    assert submitted.status_code == 201


@pytest.mark.usefixtures("anns")
async def test_what_somebody_has_brought_before_is_compared_and_costs_nothing(
    world: ServiceWorld, http: httpx.AsyncClient, place: Watched
) -> None:
    world.service.uploads.most_bytes = len(FILES)
    again = await upload(http, "ann")
    assert (again.status_code, again.json()["size_bytes"]) == (200, len(FILES))
    assert place.asked == ["renew"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PATCH", "DELETE"])
@pytest.mark.usefixtures("anns")
async def test_no_other_method_tells_whether_it_is_here(
    http: httpx.AsyncClient, place: Watched, method: str
) -> None:
    answers = [
        await http.request(method, f"/v1/snapshots/{sha256}", headers=as_user(who))
        for sha256 in (SHA, UNKNOWN)
        for who in ("ann", "bob")
    ]
    assert {answer.status_code for answer in answers} == {405}
    assert place.asked == []


@pytest.mark.parametrize(
    ("who", "status"), [("ann", 201), ("ada", 201), ("root", 201), ("alf", 403), ("bob", 404)]
)
@pytest.mark.usefixtures("anns")
async def test_a_job_with_files_is_run_again_by_its_owner_and_those_who_steer_it(
    http: httpx.AsyncClient, who: str, status: int
) -> None:
    answer = await http.post("/v1/jobs/digits-1/again", headers=as_user(who))
    assert answer.status_code == status
    if status == 403:
        assert "runs from files of ann, which are not shared in vision" in answer.json()["message"]


@pytest.mark.parametrize(
    ("who", "status"), [("ann", 201), ("ada", 201), ("root", 201), ("alf", 422), ("bob", 404)]
)
@pytest.mark.usefixtures("anns")
async def test_who_may_run_it_again_may_also_change_what_is_asked(
    http: httpx.AsyncClient, who: str, status: int
) -> None:
    first = (await http.get("/v1/jobs/digits-1", headers=as_user("ann"))).json()
    made = a_job(team="vision") | {"parent": first["id"]}
    assert (await http.post("/v1/jobs", json=made, headers=as_user(who))).status_code == status


@pytest.mark.parametrize("change", [{"snapshot": UNKNOWN}, {"team": "nlp"}])
@pytest.mark.usefixtures("anns")
async def test_a_parent_is_no_key_to_other_files_nor_for_another_team(
    http: httpx.AsyncClient, change: dict[str, str]
) -> None:
    first = (await http.get("/v1/jobs/digits-1", headers=as_user("ann"))).json()
    made = a_job(team="vision") | {"parent": first["id"]} | change
    assert (await http.post("/v1/jobs", json=made, headers=as_user("root"))).status_code == 422


@pytest.mark.parametrize(("who", "says"), [("ann", None), ("ada", None), ("alf", "ask ann to run")])
@pytest.mark.usefixtures("anns")
async def test_a_job_says_why_its_reader_may_not_run_it_again(
    http: httpx.AsyncClient, who: str, says: str | None
) -> None:
    one = (await http.get("/v1/jobs/digits-1", headers=as_user(who))).json()
    (listed,) = (await http.get("/v1/jobs", headers=as_user(who))).json()["jobs"]
    assert one["again_hindrance"] == listed["again_hindrance"]
    if says is None:
        assert one["again_hindrance"] is None
    else:
        assert says in one["again_hindrance"]


@pytest.mark.parametrize("whole_hub", [True, False])
@pytest.mark.usefixtures("anns")
async def test_a_team_that_shares_runs_from_each_others_files_and_no_other_team_does(
    world: ServiceWorld, http: httpx.AsyncClient, whole_hub: bool
) -> None:
    share(world, whole_hub=whole_hub)

    async def statuses(who: str) -> list[int]:
        again = await http.post("/v1/jobs/digits-1/again", headers=as_user(who))
        by_hash = await http.post("/v1/jobs", json=a_job(), headers=as_user(who))
        return [again.status_code, by_hash.status_code]

    assert await statuses("alf") == [201, 201]
    assert await statuses("bob") == [404, 422]
    share(world, whole_hub=whole_hub, shared=False)
    assert (await statuses("alf"))[0] == 403


@pytest.mark.parametrize("origin", ["dask", "ray"])
async def test_the_key_of_a_cluster_is_its_owners_alone_whatever_a_team_shares(
    world: ServiceWorld, http: httpx.AsyncClient, origin: str
) -> None:
    share(world)
    await upload(http, "ann")
    asked = a_job(labels={"origin": origin})
    job = (await http.post("/v1/jobs", json=asked, headers=as_user("ann"))).json()

    async def statuses(who: str) -> list[int]:
        again = await http.post(f"/v1/jobs/{job['name']}/again", headers=as_user(who))
        from_it = a_job(parent=job["id"])
        made = [
            await http.post("/v1/jobs", json=one, headers=as_user(who))
            for one in (a_job(), from_it)
        ]
        return [again.status_code, *(one.status_code for one in made)]

    assert await statuses("alf") == [403, 422, 422]
    # Who leads the team would be in ann's notebook with it.
    assert await statuses("ada") == [403, 422, 422]
    again = await http.post(f"/v1/jobs/{job['name']}/again", headers=as_user("ann"))
    assert again.status_code == 201

    # It has the same key, and both are over while the notebook lives on.
    job = again.json()
    assert await statuses("ada") == [403, 422, 422]
    for name in ("digits-1", job["name"]):
        ended = await http.post(f"/v1/jobs/{name}/cancel", headers=as_user("ann"))
        assert ended.status_code == 200
    world.pass_time(1000)
    assert not world.service.loop.cluster.workloads
    assert await statuses("alf") == [403, 422, 422]
    assert await statuses("ada") == [403, 422, 422]


@pytest.mark.parametrize("labels", [{}, {"origin": "dask"}])
async def test_the_key_of_a_cluster_stays_one_as_a_job_of_another_kind_in_another_team(
    world: ServiceWorld, http: httpx.AsyncClient, labels: dict[str, str]
) -> None:
    """Ann is in both teams; what she runs from her key in nlp is no key to nlp's members."""
    share(world)
    nlp = {**CONFIG["teams"][1], "members": ["ann", "alf"]}
    teams = [models.TeamModel.model_validate(nlp)]
    done(settings.put_config(world.service, world.admin, models.ConfigModel(teams=teams)))
    await upload(http, "ann")
    key = await http.post(
        "/v1/jobs", json=a_job(team="vision", labels={"origin": "ray"}), headers=as_user("ann")
    )
    other = await http.post(
        "/v1/jobs", json=a_job(team="nlp", labels=labels), headers=as_user("ann")
    )
    assert (key.status_code, other.status_code) == (201, 201)
    again = await http.post(f"/v1/jobs/{other.json()['id']}/again", headers=as_user("alf"))
    by_hash = await http.post("/v1/jobs", json=a_job(team="nlp"), headers=as_user("alf"))
    assert (again.status_code, by_hash.status_code) == (403, 422)


@pytest.mark.usefixtures("anns")
async def test_files_of_one_team_are_not_shared_by_a_teammate_of_another(
    world: ServiceWorld, http: httpx.AsyncClient
) -> None:
    """Alf is in both teams; what ann runs in vision is none of nlp's."""
    share(world)
    nlp = models.TeamModel.model_validate({**CONFIG["teams"][1], "members": ["alf"]})
    done(settings.put_config(world.service, world.admin, models.ConfigModel(teams=[nlp])))
    elsewhere = await http.post("/v1/jobs", json=a_job(team="nlp"), headers=as_user("alf"))
    assert elsewhere.status_code == 422


@pytest.mark.usefixtures("anns")
def test_a_service_submits_a_users_own_files_and_nobody_elses(world: ServiceWorld) -> None:
    """An object of a cluster names any hash: whose it is counts, not who hands it on."""
    operator = world.principal(OPERATOR, ADMIN, kind=PrincipalKind.HUB_SERVICE)

    def handed_on(user: str, team: str) -> models.JobView:
        request = models.JobRequest.model_validate(a_job(user=user, team=team))
        return jobs.submit(world.service, operator, request, key=None)

    assert handed_on("ann", "vision").owner == "ann"
    for user, team in (("bob", "nlp"), ("alf", "vision")):
        with pytest.raises(Exception, match="are none of yours here"):
            handed_on(user, team)


@pytest.mark.usefixtures("anns")
async def test_the_owner_of_a_job_may_use_its_files_when_the_upload_is_forgotten(
    world: ServiceWorld, http: httpx.AsyncClient
) -> None:
    """As after an update from a release that did not note uploads."""
    world.pass_time(1000)
    world.store.drop_uploads(before_ms=world.now_ms, is_gone=lambda _sha256: True)
    mine = await http.post("/v1/jobs", json=a_job(), headers=as_user("ann"))
    theirs = await http.post("/v1/jobs", json=a_job(), headers=as_user("bob"))
    assert (mine.status_code, theirs.status_code) == (201, 422)


async def test_an_upload_that_was_cut_short_gives_no_claim(
    world: ServiceWorld, http: httpx.AsyncClient
) -> None:
    assert (await upload(http, "bob", FILES[:5])).status_code == 422
    world.bring(FILES)
    assert (await http.post("/v1/jobs", json=a_job(), headers=as_user("bob"))).status_code == 422
