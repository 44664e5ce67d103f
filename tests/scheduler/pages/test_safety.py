"""Login, forged requests, headers, escaping, secrets: for every address."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from gpucommons.scheduler.client import AsyncSchedulerClient

TICKET = "ticket/0190aaaa-0000-7000-8000-000000000001"
RECLAIM = "admin/reclaim/0190aaaa-0000-7000-8000-000000000002"
PAGES = (
    "",
    "ticket?size=1",
    TICKET,
    "admin",
    "admin/teams",
    "admin/waiting",
    "admin/idle",
    "admin/evictions",
    "admin/report",
    "admin/report.csv",
    "docs",
)
WRITES = (
    "ticket",
    f"{TICKET}/take",
    f"{TICKET}/leave",
    f"{TICKET}/cpu",
    "admin/quotas/check",
    "admin/quotas",
    RECLAIM,
)
CSP = "default-src 'self'; frame-ancestors 'none'; object-src 'none'; base-uri 'none'"
MARKUP = "<img src=x onerror=alert(1)>"


def _has_the_headers(answer: httpx.Response) -> bool:
    return (
        answer.headers["Content-Security-Policy"] == CSP
        and answer.headers["X-Content-Type-Options"] == "nosniff"
        and answer.headers["Referrer-Policy"] == "same-origin"
        and "Server" not in answer.headers
    )


@pytest.mark.parametrize("path", PAGES)
async def test_a_visitor_without_login_is_sent_to_the_hub(
    visit: Any, scheduler: Any, path: str
) -> None:
    answer = await (await visit(None)).get(path)

    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/hub/api/oauth2/authorize?")
    assert _has_the_headers(answer)
    assert scheduler.asked == []


async def test_a_script_without_login_is_told_instead_of_redirected(visit: Any) -> None:
    answer = await (await visit(None)).get(f"{TICKET}/state")

    assert answer.status_code == 401
    assert answer.json()["error"] == "NotAuthenticated"


@pytest.mark.parametrize("path", WRITES)
async def test_a_write_without_login_is_refused(visit: Any, scheduler: Any, path: str) -> None:
    answer = await (await visit(None)).post(path)

    assert answer.status_code == 403
    assert scheduler.asked == []


@pytest.mark.parametrize("path", WRITES)
@pytest.mark.parametrize("token", [None, "forged"])
async def test_a_write_without_the_pages_own_token_is_refused(
    visit: Any, scheduler: Any, path: str, token: str | None
) -> None:
    admin = await visit("admin", allow_admin_writes=True)
    await admin.xsrf()

    answer = await admin.post(path, headers={"X-XSRFToken": token} if token else {})

    assert answer.status_code == 403
    assert "no longer valid" in answer.text
    assert _has_the_headers(answer)
    assert scheduler.writes() == []


async def test_another_users_form_token_is_refused(visit: Any, scheduler: Any) -> None:
    alice, admin = await visit("alice"), await visit("admin")

    answer = await admin.post(f"{TICKET}/leave", data={"_xsrf": await alice.xsrf()})

    assert answer.status_code == 403
    assert scheduler.writes() == []


async def test_another_sites_script_reads_nothing(visit: Any, scheduler: Any) -> None:
    alice = await visit("alice")

    answer = await alice.get(f"{TICKET}/state", headers={"Sec-Fetch-Mode": "cors"})

    assert answer.status_code == 401
    assert scheduler.asked == []


async def test_login_ends_at_the_page_that_was_asked_for(visit: Any) -> None:
    visitor = await visit(None)
    sent = await visitor.get("admin/waiting")
    state = parse_qs(urlsplit(sent.headers["Location"]).query)["state"][0]

    back = await visitor.get("oauth_callback", params={"code": "once", "state": state})

    assert back.status_code == 302
    assert back.headers["Location"] == "/services/gpucommons/admin/waiting"
    assert _has_the_headers(back)
    assert "alice" in await visitor.page("admin/waiting")


async def test_a_login_that_was_not_begun_here_is_refused(visit: Any) -> None:
    answer = await (await visit(None)).get("oauth_callback?code=once&state=eyJhIjoxfQ")

    assert answer.status_code == 403
    assert "Try logging in again" in answer.text
    assert _has_the_headers(answer)


async def test_who_may_not_use_the_service_is_told(visit: Any, scheduler: Any) -> None:
    answer = await (await visit("stranger")).get("")

    assert answer.status_code == 403
    assert "stranger may not open GPU Commons" in answer.text
    assert scheduler.asked == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *((path, 200) for path in PAGES),
        (f"{TICKET}/state", 200),
        ("nowhere", 404),
        ("admin/nowhere", 404),
        ("ticket/not-an-id", 404),
        ("ticket?size=much", 422),
        ("oauth_callback", 400),
        ("static/pages.css", 200),
        ("static/pages.js?v=1", 200),
        ("static/nowhere.js", 404),
        ("static/../server.py", 404),
        ("../../services/gpucommons", 301),
    ],
)
async def test_every_answer_carries_the_headers(visit: Any, path: str, status: int) -> None:
    answer = await (await visit("admin")).get(path)

    assert answer.status_code == status
    assert _has_the_headers(answer)


async def test_pages_are_not_cached_and_versioned_files_are(visit: Any) -> None:
    alice = await visit("alice")

    assert (await alice.get("")).headers["Cache-Control"] == "no-store"
    assert (await alice.get("static/pages.js")).headers["Cache-Control"] == "no-cache"
    assert "max-age=3" in (await alice.get("static/pages.css?v=1")).headers["Cache-Control"]


@pytest.mark.parametrize("path", PAGES)
async def test_no_secret_reaches_a_page(visit: Any, path: str) -> None:
    text = await (await visit("admin", allow_admin_writes=True)).page(path)

    assert "service-token" not in text
    assert "token-admin" not in text
    assert "a secret for cookies" not in text


@pytest.mark.parametrize("path", PAGES)
async def test_markup_in_names_and_texts_stays_text(
    visit: Any, scheduler: Any, cluster: Any, path: str
) -> None:
    for key, view in list(scheduler.answers.items()):
        if hasattr(view, "model_dump_json"):
            dirty = view.model_dump_json().replace("user-b", MARKUP).replace("digits", MARKUP)
            dirty = dirty.replace("=cmd", MARKUP).replace("vision holds", MARKUP)
            scheduler.answers[key] = type(view).model_validate_json(dirty)

    text = await (await visit("admin", allow_admin_writes=True)).page(path)

    assert "csv" in path or "<img" not in text


async def test_markup_in_an_error_stays_text(visit: Any, scheduler: Any, cluster: Any) -> None:
    scheduler.answers["GET /v1/nodes"] = cluster.errors.Forbidden(MARKUP)

    answer = await (await visit("alice")).get("admin")

    assert answer.status_code == 403
    assert "<img" not in answer.text
    assert "&lt;img" in answer.text


async def test_pages_hold_no_inline_script_or_style(visit: Any) -> None:
    admin = await visit("admin", allow_admin_writes=True)
    for path in PAGES:
        text = await admin.page(path)

        assert "<style" not in text
        assert " style=" not in text
        assert " onclick=" not in text
        assert text.count("<script") == len(re.findall(r'<script( type="module")? src="', text))


async def test_the_api_is_asked_as_the_user_in_front_of_the_browser(
    visit: Any, scheduler: Any
) -> None:
    await (await visit("alice")).page("admin")

    assert {token for _, _, token, _ in scheduler.asked} == {"token-alice"}


async def test_pages_open_no_client_for_each_call(
    visit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = await visit("admin")
    opened: list[str] = []
    opening = AsyncSchedulerClient.__init__

    def counted(self: AsyncSchedulerClient, url: str, **more: Any) -> None:
        opened.append(url)
        opening(self, url, **more)

    monkeypatch.setattr(AsyncSchedulerClient, "__init__", counted)
    assert (await visitor.get("admin")).status_code == 200
    assert opened == []


async def test_who_comes_through_a_scheduler_that_stands_by_is_sent_to_the_hub_too(
    start_pages: Any, tmp_path: Path
) -> None:
    await start_pages(forwarded=tmp_path / "pages.sock")
    through = httpx.AsyncHTTPTransport(uds=str(tmp_path / "pages.sock"))
    async with httpx.AsyncClient(transport=through, base_url="http://x") as browser:
        answer = await browser.get("/services/gpucommons/admin")

    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/hub/api/oauth2/authorize?")
    assert _has_the_headers(answer)
