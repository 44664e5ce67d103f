"""The calls to JupyterHub, and the servers started and stopped through them."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest
from builders import T0, a_notebook

from gpucommons.scheduler.core.events.leases import RELEASED
from gpucommons.scheduler.core.model.actions import (
    RestartServer,
    ServerAct,
    StartServer,
    StopServer,
)
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    HoldClass,
    Millis,
    State,
    Stop,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import HubRefusesToken, Unavailable
from gpucommons.scheduler.hub.hub import Hub, HubRefused, TooLarge
from gpucommons.scheduler.hub.servers import Servers
from gpucommons.scheduler.hub.user_groups import HubDirectory, NoDirectory


class Answers:
    """A hub that answers what it was told to, and remembers what it was asked."""

    def __init__(self, *answers: tuple[int, Any] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        self.asked.append((request.method, request.url.raw_path.decode(), body))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer[0], json=answer[1])

    def hub(self) -> Hub:
        return Hub("http://hub/hub/api/", token="t", transport=httpx.MockTransport(self))


async def test_options_are_posted_flat_to_the_named_server() -> None:
    answers = Answers((201, None), (202, None), (400, {"message": "a b is already running"}))
    hub = answers.hub()
    assert await hub.start_server("a/b", "", {"milli_gpu": 500})
    assert await hub.start_server("ann", "lab 1", {"milli_gpu": 500})
    assert not await hub.start_server("ann", "", {})
    assert answers.asked[0] == ("POST", "/hub/api/users/a%2Fb/server", {"milli_gpu": 500})
    assert answers.asked[1][1] == "/hub/api/users/ann/servers/lab%201"


async def test_the_options_of_the_last_start_are_read_also_of_a_server_that_is_stopped() -> None:
    options = {"profile": "torch", "milli_gpu": 500}
    model = {"name": "ann", "servers": {"lab": {"user_options": options}, "new": {}}}
    answers = Answers((200, model), (200, model), (200, model), (404, {}), (200, {"name": "ann"}))
    hub = answers.hub()
    assert await hub.options_of("ann", "lab") == options
    assert answers.asked[0][1] == "/hub/api/users/ann?include_stopped_servers=1"
    assert await hub.options_of("ann", "new") == {}
    assert await hub.options_of("ann", "never") == {}
    assert await hub.options_of("gone", "") == {}
    with pytest.raises(Unavailable, match="read:servers"):
        await hub.options_of("ann", "lab")


async def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for sent in range(1, 101):  # noqa: B007 - how much was taken
            yield b" " * (1 << 20)

    answer = httpx.MockTransport(lambda _: httpx.Response(200, content=endless()))
    hub = Hub("http://hub/hub/api", token="t", transport=answer)
    with pytest.raises(TooLarge, match="larger than 1 MiB"):
        await hub.options_of("ann", "lab")
    assert sent == 2


async def test_options_that_are_none_and_answers_nested_without_end_are_no_surprise() -> None:
    model = {"name": "ann", "servers": {"lab": {"user_options": ["odd"]}}}
    assert await Answers((200, model)).hub().options_of("ann", "lab") == {}
    nested = httpx.MockTransport(lambda _: httpx.Response(200, content=b"[" * 100_000))
    with pytest.raises(Unavailable, match="cannot be used"):
        await Hub("http://hub/hub/api", token="t", transport=nested).groups_of("ann")


@pytest.mark.parametrize("answer", [(429, {}), (503, {}), (500, {}), httpx.ConnectError("refused")])
async def test_what_may_pass_is_unavailable(answer: Any) -> None:
    hub = Answers(*[answer] * 4).hub()
    for call in (
        hub.start_server("ann", "", {}),
        hub.stop_server("ann", ""),
        hub.owner_of("t"),
        hub.groups_of("ann"),
    ):
        with pytest.raises(Unavailable):
            await call


async def test_a_server_that_still_goes_down_is_started_later() -> None:
    with pytest.raises(Unavailable, match="pending stop"):
        await Answers((400, {"message": "ann is pending stop"})).hub().start_server("ann", "", {})


async def test_what_stays_is_refused_with_the_hubs_words() -> None:
    hub = Answers((403, {"message": "no scope"}), (404, "odd")).hub()
    with pytest.raises(HubRefused, match="no scope"):
        await hub.start_server("ann", "", {})
    with pytest.raises(HubRefused, match="404"):
        await hub.start_server("ann", "", {})


@pytest.mark.parametrize(
    ("answer", "down"),
    [
        ((204, None), True),
        ((202, None), False),
        ((404, {}), True),
        ((400, {"message": "ann is not running"}), True),
        ((400, {"message": "pending stop"}), False),
    ],
)
async def test_a_stop_says_whether_the_server_is_down(answer: Any, *, down: bool) -> None:
    assert await Answers(answer).hub().stop_server("ann", "") is down


@pytest.mark.parametrize("status", [401, 403])
async def test_a_hub_that_refuses_our_own_token_is_not_said_to_be_silent(status: int) -> None:
    hub = Answers((status, {"message": "Missing or invalid credentials."}), (status, "")).hub()
    with pytest.raises(HubRefusesToken, match=r"invalid credentials.*restart the hub"):
        await hub.groups_of("ann")
    with pytest.raises(HubRefusesToken, match="/users/ann"):
        await hub.has_server("ann", "")


async def test_who_is_behind_a_token() -> None:
    model = {"kind": "service", "name": "culler", "groups": [], "scopes": ["read:metrics"]}
    user = await Answers((200, model)).hub().owner_of("t")
    assert user is not None
    assert (user.name, user.is_service, user.scopes) == ("culler", True, {"read:metrics"})
    assert await Answers((403, {})).hub().owner_of("t") is None
    with pytest.raises(Unavailable):
        await Answers((200, ["odd"])).hub().owner_of("t")


async def test_groups_are_asked_from_threads_and_remembered() -> None:
    answers = Answers((200, {"name": "ann", "groups": ["g"]}), (404, {}), (200, {"name": "ann"}))
    now = [0]
    directory = HubDirectory(answers.hub(), now_ms=lambda: now[0])

    def ask(user: str) -> frozenset[str]:
        return directory.groups_of(UserName(user))

    assert await asyncio.to_thread(ask, "ann") == {"g"}
    assert await asyncio.to_thread(ask, "ann") == {"g"}
    assert await asyncio.to_thread(ask, "gone") == frozenset()
    now[0] = 30_000
    assert await asyncio.to_thread(ask, "ann") == frozenset()
    assert NoDirectory().groups_of(UserName("ann")) == frozenset()


# --- servers ---------------------------------------------------------------------------------


class FakeHub:
    """Fails as told, then does what it is asked; remembers the options of the last start."""

    def __init__(
        self, *failures: Exception | bool, last: Mapping[str, Any] | Exception | None = None
    ) -> None:
        self.failures = list(failures)
        self.last: Mapping[str, Any] | Exception = last or {}
        self.calls: list[tuple[str, str, Mapping[str, Any] | None]] = []

    async def options_of(self, user: str, server_name: str) -> Mapping[str, Any]:
        assert (user, server_name) == ("ann", "lab")
        if isinstance(self.last, Exception):
            raise self.last
        return self.last

    async def start_server(self, user: str, server_name: str, options: Mapping[str, Any]) -> bool:
        return self._answer("start", f"{user}/{server_name}", options)

    async def stop_server(self, user: str, server_name: str) -> bool:
        return self._answer("stop", f"{user}/{server_name}", None)

    def _answer(self, verb: str, server: str, options: Mapping[str, Any] | None) -> bool:
        self.calls.append((verb, server, options))
        answer = self.failures.pop(0) if self.failures else True
        if isinstance(answer, Exception):
            raise answer
        return answer


class Rest:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now_ms = int(T0)

    async def sleep(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)
        await asyncio.sleep(0)


def a_lease(why: str | None = None, **changes: Any) -> Workload:
    stop = None
    if why is not None:
        stop = Stop(why=why, text="", announced_ms=T0, term_ms=T0, kill_ms=T0)
    attempt = Attempt(
        attempt_id=AttemptId("a"),
        workload_id=WorkloadId("w"),
        number=1,
        state=AttemptState.RUNNING,
        hold_class=HoldClass.FIXED,
        placements=(),
        reserved_ms=T0,
        stop=stop,
    )
    lease = Workload(
        workload_id=WorkloadId("w"),
        spec=a_notebook("ann", 500, server_name="lab", environment="torch"),
        state=State.GRANTED,
        submitted_ms=T0,
        since_ms=T0,
        attempts=(attempt,),
        redeem_by_ms=Millis(T0 + 120_000),
    )
    return replace(lease, **changes)


class Loop:
    """Repeats an act each second while it is due, as the scheduler's loop does."""

    def __init__(
        self,
        hub: FakeHub,
        *,
        runs: Callable[[ServerAct], bool] | None = None,
        on_down: Callable[[], None] | None = None,
    ) -> None:
        self.rest = Rest()
        self.due: set[ServerAct] = set()
        self.told: list[str] = []
        self.woken = 0
        self.runs = runs
        self.servers = Servers(
            hub,
            now_ms=lambda: self.rest.now_ms,
            on_down=lambda _: self.hear("down") if on_down is None else on_down(),
            on_restarted=lambda _: self.hear("restarted"),
            on_refused=lambda _, text: self.hear(text),
            is_due=self.is_due,
            wake=self.wake,
            sleep=self.rest.sleep,
        )

    def is_due(self, act: ServerAct) -> bool:
        return act in self.due if self.runs is None else self.runs(act)

    def hear(self, what: str) -> None:
        self.told.append(what)
        self.due.clear()

    def wake(self) -> None:
        self.woken += 1

    async def play(self, act: ServerAct, lease: Workload, *, until_ms: int = 600_000) -> None:
        self.due.add(act)
        while self.due and self.rest.now_ms < T0 + until_ms:
            for _ in range(3):
                self.servers(act, lease)
            await settle(self.servers)


async def settle(servers: Servers) -> None:
    await asyncio.sleep(0)
    for _ in range(500):
        if not servers.busy:
            return
        await asyncio.sleep(0.001)
    raise AssertionError("still busy")


START = StartServer(workload_id=WorkloadId("w"))
STOP = StopServer(workload_id=WorkloadId("w"))
RESTART = RestartServer(workload_id=WorkloadId("w"))


async def test_a_granted_ticket_starts_its_server_once() -> None:
    hub = FakeHub(Unavailable("429"), Unavailable("502"))
    loop = Loop(hub)
    await loop.play(START, a_lease(), until_ms=6_000)
    options = {
        "milli_gpu": 500,
        "ticket": "w",
        "team": "vision",
        "pool": "train",
        "environment": "torch",
    }
    assert hub.calls == [("start", "ann/lab", options)] * 3
    assert loop.told == []
    assert loop.woken == 3


LAST = {
    "profile": "torch",
    "profile-option-torch--size": "big",
    "milli_gpu": 1000,
    "opt-team": "speech",
    "ticket": "an old one",
    "_xsrf": "x",
    "display_name": "Lab",
}
OF_OTHERS = {"profile": "torch", "profile-option-torch--size": "big"}


async def test_a_ticket_starts_its_server_in_the_profile_of_its_last_start() -> None:
    hub = FakeHub(last=LAST)
    await Loop(hub).play(START, a_lease(), until_ms=4_000)
    [(_, _, options)] = hub.calls
    assert options == OF_OTHERS | {
        "milli_gpu": 500,
        "ticket": "w",
        "team": "vision",
        "pool": "train",
        "environment": "torch",
    }


async def test_a_profile_that_was_chosen_with_the_ticket_wins_over_that_of_the_last_start() -> None:
    hub, waited = FakeHub(last=LAST), a_lease()
    spec = replace(
        waited.spec, other_options={"profile": ("small",), "display_name": ("x",), "a": ()}
    )
    await Loop(hub).play(START, replace(waited, spec=spec), until_ms=4_000)
    [(_, _, options)] = hub.calls
    assert {name: options[name] for name in options.keys() & OF_OTHERS.keys()} == {
        "profile": ["small"]
    }
    assert not options.keys() & {"display_name", "a"}, "the hub refuses them"
    assert options["milli_gpu"] == 500


@pytest.mark.parametrize(("ask", "why"), [(START, None), (RESTART, RELEASED)])
async def test_what_is_to_become_of_its_kernels_goes_with_a_start(
    ask: Any, why: str | None
) -> None:
    hub, lease = FakeHub(), a_lease(why)
    chosen = {"on_idle": "hibernate", "kernels_kept_days": 3}
    await Loop(hub).play(ask, replace(lease, spec=replace(lease.spec, **chosen)), until_ms=4_000)
    [(_, _, options)] = hub.calls
    assert {name: options[name] for name in chosen} == chosen


async def test_a_released_notebook_comes_back_in_its_profile() -> None:
    hub = FakeHub(last=LAST)
    await Loop(hub).play(RESTART, a_lease(RELEASED))
    [(_, _, options)] = hub.calls
    assert options == OF_OTHERS | {
        "milli_gpu": 0,
        "team": "vision",
        "pool": "train",
        "environment": "torch",
    }


@pytest.mark.parametrize(
    "last",
    [
        {"profile": math.nan, "size": "big"},
        {"profile": "\ud800", "\udfff": "x", "size": "big"},
        {"profile": {"much": ["more"]}, "pages": [["a"]], "size": "big"},
    ],
)
async def test_options_that_cannot_be_posted_or_are_no_choices_are_left_out(last: Any) -> None:
    hub = FakeHub(last=last)
    await Loop(hub).play(RESTART, a_lease(RELEASED))
    [(_, _, options)] = hub.calls
    assert options is not None
    assert options["size"] == "big"
    assert options.keys() == {"size", "milli_gpu", "team", "pool", "environment"}


@pytest.mark.parametrize(
    "last", [{str(n): n for n in range(65)}, {"profile": "x" * 9_000}, TooLarge("of 22 MiB")]
)
async def test_a_server_with_options_beyond_all_measure_starts_without_them(last: Any) -> None:
    hub = FakeHub(last=last)
    await Loop(hub).play(RESTART, a_lease(RELEASED))
    [(_, _, options)] = hub.calls
    assert options is not None
    assert options.keys() == {"milli_gpu", "team", "pool", "environment"}


async def test_what_nobody_foresaw_is_tried_again_after_growing_pauses_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub = FakeHub(*[ValueError("Out of range float values")] * 1000)
    await Loop(hub).play(RESTART, a_lease(RELEASED), until_ms=60_000)
    assert 5 <= len(hub.calls) <= 12
    assert len([one for one in caplog.records if one.exc_info]) == 1


async def test_a_start_that_is_due_no_more_once_its_options_are_read_is_not_asked_for() -> None:
    hub = FakeHub(last=LAST)
    loop = Loop(hub)
    loop.servers(START, a_lease())
    await settle(loop.servers)
    assert hub.calls == []


async def test_a_start_is_tried_until_the_grant_expires() -> None:
    hub = FakeHub(*[Unavailable("no hub")] * 1000)
    await Loop(hub).play(START, a_lease(), until_ms=300_000)
    assert 12 <= len(hub.calls) <= 20


@pytest.mark.parametrize("status", [401, 403, 409])
async def test_a_refusal_that_is_not_about_this_server_keeps_its_ticket(status: int) -> None:
    hub = FakeHub(*[HubRefused("no scope", status=status)] * 10)
    loop = Loop(hub)
    await loop.play(START, a_lease(), until_ms=100_000)
    assert len(hub.calls) == 2
    assert loop.told == []


async def test_a_ticket_whose_server_the_hub_will_not_start_ends_with_the_hubs_words() -> None:
    hub = FakeHub(HubRefused("No such user: ann.", status=404))
    loop = Loop(hub)
    await loop.play(START, a_lease())
    assert loop.told == ["JupyterHub does not start its server: No such user: ann"]
    assert len(hub.calls) == 1


async def test_a_ticket_whose_server_runs_already_without_its_slice_ends() -> None:
    loop = Loop(FakeHub(False))
    await loop.play(START, a_lease())
    assert loop.told == [
        "Its turn came while this server ran already: stop the server, then wait in line again"
    ]


async def test_a_server_that_takes_its_slice_this_moment_keeps_its_lease() -> None:
    answers = iter([True, False])
    loop = Loop(FakeHub(False), runs=lambda _act: next(answers))
    loop.servers(START, a_lease())
    await settle(loop.servers)
    assert loop.told == []


async def test_a_reclaimed_notebook_is_stopped_and_reported_down() -> None:
    hub = FakeHub(Unavailable("502"), False)
    loop = Loop(hub)
    await loop.play(STOP, a_lease("reclaimed"))
    assert [call[0] for call in hub.calls] == ["stop", "stop", "stop"]
    assert loop.told == ["down"]


async def test_a_stop_that_takes_long_does_not_stop_the_next_server_of_that_name() -> None:
    hub = FakeHub(False)
    loop = Loop(hub)
    loop.due.add(STOP)
    loop.servers(STOP, a_lease("reclaimed"))
    await settle(loop.servers)
    # The spawner says that it is down, and its user starts anew.
    loop.due.clear()
    loop.servers(STOP, a_lease("reclaimed"))
    await settle(loop.servers)
    assert [call[0] for call in hub.calls] == ["stop"]


async def test_what_is_due_no_more_after_the_farewell_is_not_asked_for() -> None:
    hub = FakeHub()
    loop = Loop(hub)
    loop.servers(STOP, a_lease(RELEASED))
    await settle(loop.servers)
    assert hub.calls == []


async def test_a_released_notebook_comes_back_without_gpu() -> None:
    hub = FakeHub(True, HubRefused("pending stop", status=400))
    loop = Loop(hub)
    await loop.play(STOP, a_lease(RELEASED))
    assert loop.told == ["down"]
    await loop.play(RESTART, a_lease(RELEASED))
    assert loop.told == ["down", "restarted"]
    assert [call[0] for call in hub.calls] == ["stop", "start", "start"]
    assert hub.calls[-1][2] == {
        "milli_gpu": 0,
        "team": "vision",
        "pool": "train",
        "environment": "torch",
    }


async def test_a_scheduler_whose_store_is_away_hears_of_it_later() -> None:
    hub = FakeHub()
    heard: list[str] = []

    def hear() -> None:
        heard.append("down")
        if len(heard) == 1:
            raise Unavailable("The store does not answer.")
        loop.due.clear()

    loop = Loop(hub, on_down=hear)
    await loop.play(STOP, a_lease("reclaimed"))
    assert heard == ["down", "down"]


async def test_closing_ends_what_is_under_way() -> None:
    hub = FakeHub(*[Unavailable("no hub")] * 10)
    servers = Servers(
        hub, now_ms=lambda: int(T0), on_down=lambda _: None, on_restarted=lambda _: None
    )
    servers(StartServer(workload_id=WorkloadId("w")), a_lease())
    await asyncio.sleep(0.01)
    assert servers.busy
    await servers.close()
    await asyncio.sleep(0)
    assert not servers.busy
