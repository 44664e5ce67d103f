"""Who brought a snapshot, and whose jobs run from it, is known to every replica and after a restart."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from stored_rows import NOW, VISION, job

from gpucommons.scheduler.core.model.state import Changes
from gpucommons.scheduler.core.model.types import Millis, State, TeamName, UserName
from gpucommons.scheduler.store.base import Claims, Store, WorkloadFilter
from gpucommons.scheduler.store.codec import encode_plain, to_plain
from gpucommons.scheduler.store.opening import open_store
from gpucommons.scheduler.store.sql import engine

ADA, EVE, NLP = UserName("ada"), UserName("eve"), TeamName("nlp")
A, B = "a" * 64, "b" * 64


def claims(store: Store, sha256: str, *of: UserName, team: TeamName | None = None) -> Claims:
    return store.claims(sha256, frozenset(of), team=team)


def test_an_upload_is_its_senders_alone(store: Store) -> None:
    store.note_upload(A, ADA, at_ms=NOW)
    assert claims(store, A, ADA) == claims(store, A, EVE, ADA) == Claims(uploaded=True)
    assert claims(store, A, EVE) == claims(store, B, ADA) == Claims()
    store.note_upload(A, EVE, at_ms=NOW)
    assert claims(store, A, EVE) == Claims(uploaded=True)


def test_jobs_tie_their_files_to_owner_and_team_also_when_they_are_over(store: Store) -> None:
    epoch = store.take_lead("me")
    jobs = (
        job(1, snapshot=A),
        job(2, State.SUCCEEDED, snapshot=B, owner=EVE, team=NLP),
        job(3),
    )
    store.commit(epoch, Changes(now_ms=NOW, workloads=jobs))
    assert claims(store, A, ADA, team=VISION) == Claims(own_job=True, team_job=True)
    assert claims(store, B, EVE, team=VISION) == Claims(own_job=True)
    assert claims(store, B, ADA, team=NLP) == Claims(team_job=True)
    assert claims(store, B, ADA) == claims(store, A, EVE, team=NLP) == Claims()


def test_jobs_are_found_by_their_files_and_labels_also_when_they_are_over(store: Store) -> None:
    epoch = store.take_lead("me")
    jobs = (
        job(1, State.SUCCEEDED, snapshot=A, labels={"origin": "ra%", "x": "y"}),
        job(2, snapshot=A, labels={"origin": "rat"}),
        job(3, snapshot=B, labels={"origin": "ra%"}),
    )
    store.commit(epoch, Changes(now_ms=NOW, workloads=jobs))

    def found(*labels: tuple[str, str]) -> list[str]:
        where = WorkloadFilter(snapshot=A, labelled=frozenset(labels))
        return sorted(one.workload_id for one in store.workloads(where).items)

    assert found() == [jobs[0].workload_id, jobs[1].workload_id]
    assert found(("origin", "ra%"), ("origin", "dask")) == [jobs[0].workload_id]
    assert found(("origin", "dask")) == []


def test_uploads_are_forgotten_with_their_files_and_never_one_made_meanwhile(store: Store) -> None:
    for sha256 in (A, B):
        store.note_upload(sha256, ADA, at_ms=NOW)
    store.note_upload(A, EVE, at_ms=Millis(NOW + 100))

    def is_gone(sha256: str) -> bool:
        if sha256 == A:
            store.note_upload(A, ADA, at_ms=Millis(NOW + 50))
        return True

    assert store.drop_uploads(before_ms=NOW, is_gone=is_gone) == 0
    assert store.drop_uploads(before_ms=Millis(NOW + 1), is_gone=lambda _sha256: False) == 0
    store.drop_uploads(before_ms=Millis(NOW + 1), is_gone=is_gone)
    assert claims(store, A, ADA) == claims(store, A, EVE) == Claims(uploaded=True)
    assert claims(store, B, ADA) == Claims()


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_files_of_jobs_of_an_earlier_release_are_their_owners(url: str) -> None:
    made = engine.connected(url)
    rows = [
        {
            "id": one.workload_id,
            "team": one.spec.team,
            "owner": one.spec.owner,
            "spec": encode_plain(to_plain(one)["spec"]),
        }
        for one in (job(1, snapshot=A), job(2, snapshot=B, owner=EVE, team=NLP), job(3))
    ]
    with engine.writing(made) as connection:
        engine.upgrade(connection, "0007")
        statement = (
            "INSERT INTO workloads (workload_id, kind, state, live, team, owner, name, submitted_ms,"
            " spec, standing) VALUES (:id, 'training', 'queued', false, :team, :owner, 'x', 1, :spec,"
            " '{}')"
        )
        connection.execute(text(statement), rows)
    made.dispose()
    store = open_store(url)
    assert claims(store, A, ADA, team=VISION) == Claims(own_job=True, team_job=True)
    assert claims(store, B, EVE) == Claims(own_job=True)
    assert claims(store, A, EVE) == claims(store, B, ADA, team=VISION) == Claims()
    store.close()
