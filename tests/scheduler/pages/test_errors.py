"""What goes wrong is a page that says what to do."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

TICKET = "ticket/0190aaaa-0000-7000-8000-000000000001"


async def test_somebody_elses_ticket_is_not_found(visit: Any, scheduler: Any, cluster: Any) -> None:
    scheduler.answers["GET /v1/leases/.*"] = cluster.errors.UnknownWorkload()

    answer = await (await visit("alice")).get(TICKET)

    assert answer.status_code == 404
    assert "There is no such job or notebook, or it is not yours to see." in answer.text
    assert "To the start page" in answer.text


async def test_a_scheduler_that_is_away_is_said_and_asked_again(
    start_pages: Any, scheduler: Any, cluster: Any, visit: Any
) -> None:
    scheduler.answers["GET /v1/offers"] = cluster.errors.Unavailable()

    answer = await (await visit("alice")).get("")

    assert answer.status_code == 503
    assert "The scheduler cannot be reached" in answer.text
    assert 'http-equiv="refresh" content="5"' in answer.text


async def test_a_scheduler_that_does_not_answer_is_said(visit: Any, scheduler: Any) -> None:
    def fail(_: Any) -> Any:
        raise httpx.ConnectError("refused")

    scheduler.answers["GET /v1/offers"] = fail

    answer = await (await visit("alice")).get("")

    assert answer.status_code == 503
    assert "Is it running, and may it be reached from here?" in answer.text


async def test_scripts_get_errors_as_json(visit: Any, scheduler: Any, cluster: Any) -> None:
    scheduler.answers["GET /v1/leases/.*"] = cluster.errors.Unavailable()

    answer = await (await visit("alice")).get(f"{TICKET}/state")

    assert (answer.status_code, answer.json()["error"]) == (503, "Unavailable")


async def test_a_hub_that_is_away_is_said(visit: Any) -> None:
    answer = await (await visit("alice", hub_api_url="http://127.0.0.1:9/hub/api")).get("")

    assert answer.status_code == 500
    assert "JupyterHub cannot be asked who you are" in answer.text


async def test_a_fault_of_ours_tells_no_detail(visit: Any, scheduler: Any) -> None:
    def fail(_: Any) -> Any:
        raise RuntimeError("secret detail")

    scheduler.answers["GET /v1/offers"] = fail

    answer = await (await visit("alice")).get("")

    assert answer.status_code == 500
    assert "its log says why" in answer.text
    assert "secret detail" not in answer.text


@pytest.mark.parametrize("address", ["nowhere", "admin/nowhere", "ticket/nothing"])
async def test_an_unknown_address_is_said_without_login(visit: Any, address: str) -> None:
    answer = await (await visit(None)).get(address)

    assert answer.status_code == 404
    assert "There is no such page." in answer.text


@pytest.mark.parametrize("path", ["admin", "admin/teams", "ticket"])
async def test_a_slash_too_many_leads_to_the_page_all_the_same(visit: Any, path: str) -> None:
    visitor = await visit("admin")

    answer = await visitor.get(f"{path}/?month=2026-12")

    assert answer.status_code == 302
    assert answer.headers["Location"] == f"/services/gpucommons/{path}?month=2026-12"
