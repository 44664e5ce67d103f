import json
import logging
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from gpucommons.idle_culler import hub as hub_module
from gpucommons.idle_culler.hub import Hub, HubUnavailable
from gpucommons.idle_culler.servers_without_lease import HubList, PlainRules

NOW = 1_800_000_000_000
HOUR = 3_600_000


def server(name: str = "", *, idle_h: float, **fields: Any) -> dict[str, Any]:
    last = NOW - idle_h * HOUR
    return {
        "name": name,
        "ready": True,
        "pending": None,
        "started": _iso(NOW - 30 * HOUR),
        "last_activity": _iso(last),
        **fields,
    }


def _iso(ms: float) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat().replace("+00:00", "Z")


class FakeHubApi:
    """The hub's REST API over a dict of users."""

    def __init__(self, users: dict[str, dict[str, dict[str, Any]]]) -> None:
        self.users = users
        self.requests: list[httpx.Request] = []
        self.answers: dict[str, httpx.Response] = {}

    @property
    def stopped(self) -> list[str]:
        return [r.url.path for r in self.requests if r.method == "DELETE"]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.method in self.answers:
            return self.answers[request.method]
        parts = request.url.path.removeprefix("/hub/api/").split("/")
        if request.method == "DELETE":
            return httpx.Response(204)
        if len(parts) == 1:
            return self._page(request)
        if parts[1] not in self.users:
            return httpx.Response(404, json={})
        return httpx.Response(200, json={"name": parts[1], "servers": self.users[parts[1]]})

    def _page(self, request: httpx.Request) -> httpx.Response:
        assert request.headers["accept"] == "application/jupyterhub-pagination+json"
        offset, limit = (int(request.url.params[key]) for key in ("offset", "limit"))
        names = sorted(self.users)
        items = [{"name": n, "servers": self.users[n]} for n in names[offset : offset + limit]]
        more = {"offset": offset + limit} if offset + limit < len(names) else None
        return httpx.Response(200, json={"items": items, "_pagination": {"next": more}})


def make_hub(api: FakeHubApi) -> Hub:
    return Hub("http://hub/hub/api", token="secret", transport=httpx.MockTransport(api))


async def run(api: FakeHubApi, rules: PlainRules | None = None, **fields: Any) -> None:
    source = HubList(
        hub=make_hub(api),
        rules=rules or PlainRules(inactive_after_ms=HOUR),
        now_ms=lambda: NOW,
        **fields,
    )
    async for act in source.acts():
        await act()


async def test_stops_the_default_and_a_named_server_and_never_through_a_crafted_name() -> None:
    api = FakeHubApi({})
    async with make_hub(api) as hub:
        assert await hub.stop("alice", "")
        assert await hub.stop("al/../ice", "my gpu", remove=True)
        assert await hub.stop("alice", "..")
    raw = [request.url.raw_path.decode() for request in api.requests]
    assert raw == [
        "/hub/api/users/alice/server",
        "/hub/api/users/al%2F..%2Fice/servers/my%20gpu",
        "/hub/api/users/alice/servers/%2E%2E",
    ]
    assert json.loads(api.requests[1].content) == {"remove": True}
    assert api.requests[0].headers["authorization"] == "token secret"


@pytest.mark.parametrize(("status", "down"), [(204, True), (202, False), (404, True)])
async def test_slow_and_gone_servers_count_as_stopped(status: int, down: bool) -> None:
    api = FakeHubApi({})
    api.answers["DELETE"] = httpx.Response(status)
    assert await make_hub(api).stop("alice", "") is down


@pytest.mark.parametrize(
    "answer",
    [httpx.Response(503), httpx.Response(403), httpx.Response(200, text="<html>")],
)
async def test_a_hub_that_refuses_or_babbles_is_unavailable(answer: httpx.Response) -> None:
    api = FakeHubApi({})
    api.answers["GET"] = answer
    with pytest.raises(HubUnavailable):
        await make_hub(api).server("alice", "")


async def test_a_token_that_the_hub_does_not_know_is_told_with_its_remedy() -> None:
    api = FakeHubApi({})
    api.answers["GET"] = httpx.Response(403)
    with pytest.raises(HubUnavailable, match=r"refuses GET .*restart the hub"):
        await make_hub(api).server("alice", "")


async def test_an_unreachable_hub_is_unavailable_and_the_token_stays_secret() -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    hub = Hub("http://hub/hub/api", token="secret", transport=httpx.MockTransport(fail))
    with pytest.raises(HubUnavailable) as caught:
        await hub.stop("alice", "")
    assert "secret" not in str(caught.value)


async def test_pages_are_streamed_one_at_a_time() -> None:
    api = FakeHubApi({f"user{n:03}": {"": server(idle_h=0)} for n in range(450)})
    async with make_hub(api) as hub:
        names = []
        async for found in hub.ready_servers():
            names.append(found.user)
            assert len(api.requests) == (len(names) - 1) // 200 + 1
    assert names == sorted(api.users)


async def test_answers_beyond_all_measure_are_not_read_to_their_end_and_stop_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub_module, "MAX_PASSED_OVER", 3)
    sent: list[list[int]] = []

    async def body() -> AsyncIterator[bytes]:
        yield b'{"items": [{"name": "alice", "servers": {"": {"user_options": {"a": "'
        for number in range(1000):
            sent[-1].append(number)
            yield b"x" * (1 << 20)

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.method == "GET"
        sent.append([])
        return httpx.Response(200, content=body())

    async with Hub("http://hub", token="t", transport=httpx.MockTransport(answer)) as hub:
        with pytest.raises(HubUnavailable, match=r"/users is larger than 16 MiB.*api_page_size"):
            [found async for found in hub.ready_servers(2)]
    assert [len(chunks) for chunks in sent] == [16] * 5


@pytest.mark.parametrize("page_size", [1, 3, 200])
@pytest.mark.parametrize("large", [["user0"], ["user4", "user5"], ["user8"]])
async def test_a_user_with_too_much_in_the_options_keeps_nobody_elses_server_running(
    large: list[str], page_size: int, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(hub_module, "MAX_ANSWER_BYTES", 10_000)
    api = FakeHubApi({f"user{n}": {"": server(idle_h=2)} for n in range(9)})
    for name in large:
        api.users[name][""]["user_options"] = {"display_name": "x" * 10_000}
    await run(api, page_size=page_size)
    others = sorted(set(api.users) - set(large))
    assert sorted(api.stopped) == [f"/hub/api/users/{name}/server" for name in others]
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [re.findall(r"offset=(\d+)", text) for text in warned] == [[name[4:]] for name in large]


async def test_a_user_whose_options_are_too_deep_to_read_keeps_nobody_elses_server_running() -> (
    None
):
    class DeepApi(FakeHubApi):
        def _page(self, request: httpx.Request) -> httpx.Response:
            text = super()._page(request).text
            return httpx.Response(200, text=text.replace('"deep"', "[" * 5000 + "]" * 5000))

    api = DeepApi({f"user{n}": {"": server(idle_h=2)} for n in range(4)})
    api.users["user1"][""]["user_options"] = "deep"
    await run(api)
    others = ["user0", "user2", "user3"]
    assert sorted(api.stopped) == [f"/hub/api/users/{name}/server" for name in others]


async def test_after_a_large_page_pages_grow_to_their_usual_size_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub_module, "MAX_ANSWER_BYTES", 10_000)
    api = FakeHubApi({f"user{n:02}": {"": server(idle_h=0)} for n in range(40)})
    api.users["user00"][""]["user_options"] = {"display_name": "x" * 10_000}
    async with make_hub(api) as hub:
        assert len([found async for found in hub.ready_servers(8)]) == 39
    limits = [int(request.url.params["limit"]) for request in api.requests]
    assert limits == [8, 4, 2, 1, 1, 2, 4, 8, 8, 8, 8]


async def test_a_list_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "MAX_PAGES", 3)
    same = {"items": [], "_pagination": {"next": {"offset": 0}}}
    requests = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, json=same)

    async with Hub("http://hub", token="t", transport=httpx.MockTransport(answer)) as hub:
        with pytest.raises(HubUnavailable, match="does not end after 3 pages"):
            [found async for found in hub.ready_servers()]
    assert len(requests) == 3


async def test_inactive_servers_are_looked_at_again_and_stopped() -> None:
    api = FakeHubApi(
        {
            "alice": {"": server(idle_h=2), "gpu": server("gpu", idle_h=0.5)},
            "bob": {"": server(idle_h=0.1)},
        }
    )
    await run(api)
    assert api.stopped == ["/hub/api/users/alice/server"]


async def test_a_server_that_became_active_after_the_list_is_spared() -> None:
    api = FakeHubApi({"alice": {"": server(idle_h=2)}})
    source = HubList(
        hub=make_hub(api), rules=PlainRules(inactive_after_ms=HOUR), now_ms=lambda: NOW
    )
    async for act in source.acts():
        api.users["alice"][""] = server(idle_h=0)
        await act()
    assert api.stopped == []


@pytest.mark.parametrize(
    "fields", [{"pending": "stop"}, {"ready": False}, {"last_activity": None, "started": None}]
)
async def test_what_is_not_simply_running_is_left_alone(fields: dict[str, Any]) -> None:
    api = FakeHubApi({"alice": {"": server(idle_h=2, **fields)}})
    await run(api)
    assert api.stopped == []


async def test_servers_that_hold_a_gpu_are_never_judged_by_the_hubs_count() -> None:
    api = FakeHubApi({"alice": {"": server(idle_h=20)}})
    await run(api, held=lambda: frozenset({("alice", "")}))
    assert api.stopped == []


async def test_while_leases_are_unknown_nothing_is_even_listed() -> None:
    api = FakeHubApi({"alice": {"": server(idle_h=20)}})
    await run(api, held=lambda: None)
    assert api.requests == []


async def test_old_servers_end_however_active() -> None:
    api = FakeHubApi({"alice": {"": server(idle_h=0)}})
    await run(api, PlainRules(inactive_after_ms=HOUR, max_age_ms=20 * HOUR))
    assert len(api.stopped) == 1


@pytest.mark.parametrize(("max_age_h", "stopped"), [(20, 1), (0, 0), (10_000, 0)])
async def test_without_a_limit_for_inactivity_only_age_counts(max_age_h: int, stopped: int) -> None:
    api = FakeHubApi({"alice": {"": server(idle_h=24)}})
    await run(api, PlainRules(inactive_after_ms=None, max_age_ms=max_age_h * HOUR))
    assert len(api.stopped) == stopped


@pytest.mark.parametrize(
    ("rules", "stopped"),
    [({"default_servers": False}, ["servers/gpu"]), ({"named_servers": False}, ["server"])],
)
async def test_kinds_of_servers_can_be_left_out(rules: dict[str, bool], stopped: list[str]) -> None:
    api = FakeHubApi({"alice": {"": server(idle_h=2), "gpu": server("gpu", idle_h=2)}})
    await run(api, PlainRules(inactive_after_ms=HOUR, **rules))
    assert [path.split("alice/")[1] for path in api.stopped] == stopped


async def test_an_arbiter_is_asked_instead_of_the_limit() -> None:
    asked = []

    async def arbiter(*, inactive: Any, inactive_limit: float, server: dict[str, Any]) -> bool:
        asked.append((inactive.total_seconds(), inactive_limit, server["name"]))
        return False

    api = FakeHubApi({"alice": {"": server(idle_h=2)}})
    await run(api, PlainRules(inactive_after_ms=HOUR, arbiter=arbiter))
    assert asked == [(7200.0, 3600.0, "")]
    assert api.stopped == []


async def test_dry_run_only_says_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    api = FakeHubApi({"alice": {"": server(idle_h=2)}})
    await run(api, dry_run=True)
    assert api.stopped == []
    assert "dry run, not to cull alice: inactive for 120 min" in caplog.messages
