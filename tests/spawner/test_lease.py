"""A server holds its slice from start to end, whichever way it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from tornado.web import HTTPError

ACQUIRE = "POST /v1/leases/acquire"
LEASE_ID = "0190aaaa-0000-7000-8000-000000000001"
STARTED = f"POST /v1/leases/{LEASE_ID}/started"
END = f"POST /v1/leases/{LEASE_ID}/end"
HALF = {"milli_gpu": 500, "team": "vision", "pool": "gpu"}

Make = Callable[..., Any]


async def _settle() -> None:
    """Let the news of an ended lease be delivered."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


async def test_a_cpu_notebook_never_asks_the_scheduler(make_spawner: Make, scheduler: Any) -> None:
    spawner = make_spawner()
    await spawner.start()
    await spawner.stop()
    assert scheduler.requests == []


async def test_a_start_takes_the_slice_and_reports_its_process(
    make_spawner: Make, scheduler: Any
) -> None:
    spawner = make_spawner(HALF)
    assert await spawner.start() == ("127.0.0.1", 8888)
    assert scheduler.paths() == [ACQUIRE, STARTED]
    asked = scheduler.bodies("/v1/leases/acquire")[0]
    assert (asked["user"], asked["milli_gpu"], asked["team"]) == ("alice", 500, "vision")
    assert scheduler.bodies(f"/v1/leases/{LEASE_ID}/started") == [{"pid": 4242}]


async def test_a_stop_gives_the_slice_back(make_spawner: Make, scheduler: Any) -> None:
    spawner = make_spawner(HALF)
    await spawner.start()
    await spawner.stop()
    assert scheduler.paths()[-1] == END
    assert spawner.held_slice is None


async def test_a_server_that_died_gives_the_slice_back_once(
    make_spawner: Make, scheduler: Any
) -> None:
    spawner = make_spawner(HALF)
    await spawner.start()
    spawner.running = False
    assert await spawner.poll() == 0
    assert await spawner.poll() == 0
    spawner.clear_state()
    await _settle()
    assert scheduler.paths().count(END) == 1


async def test_a_refused_slice_is_a_409_with_the_schedulers_sentence(
    make_spawner: Make, scheduler: Any
) -> None:
    sentence = "vision has ¼ of 2 notebook GPUs free, and 1 was asked: take ¼, or wait in line."
    scheduler.refuse(ACQUIRE, 409, "NoFreeSlice", sentence)
    spawner = make_spawner({"milli_gpu": 1000})
    with pytest.raises(HTTPError) as refused:
        await spawner.start()
    assert refused.value.status_code == 409
    shown = getattr(refused.value, "message", None) or refused.value.jupyterhub_message
    assert shown == sentence
    assert not spawner.running
    await _settle()
    assert END not in scheduler.paths()


@pytest.mark.parametrize("name", [".", ".."])
async def test_a_server_that_no_address_leads_to_gets_no_gpu(
    name: str, make_spawner: Make, scheduler: Any
) -> None:
    spawner = make_spawner({"milli_gpu": 500})
    spawner.orm_spawner = SimpleNamespace(name=name, state={}, server=None)
    with pytest.raises(HTTPError) as refused:
        await spawner.start()
    shown = getattr(refused.value, "message", None) or refused.value.jupyterhub_message
    assert shown == (
        f"No GPU can be asked for under this name: a server called {name!r} cannot be stopped by its"
        " address: give it another name."
    )
    assert ACQUIRE not in scheduler.paths()


async def test_a_failed_start_ends_the_lease_as_failed(make_spawner: Make, scheduler: Any) -> None:
    spawner = make_spawner(HALF)
    spawner.fails_with = OSError("no such interpreter")
    with pytest.raises(OSError, match="no such interpreter"):
        await spawner.start()
    await _settle()
    assert scheduler.bodies(f"/v1/leases/{LEASE_ID}/end") == [{"why": "failed"}]


async def test_a_start_that_cannot_be_undone_gives_the_slice_back_once_its_server_is_gone(
    make_spawner: Make, scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> None:
        raise OSError("the cluster does not answer")

    spawner = make_spawner(HALF)
    spawner.fails_with = OSError("no such image")
    monkeypatch.setattr(spawner, "_undo_start", away)
    with pytest.raises(OSError, match="does not answer"):
        await spawner.start()
    assert END not in scheduler.paths()
    assert await spawner.poll() == 0
    await _settle()
    assert scheduler.paths().count(END) == 1


async def test_a_start_that_takes_too_long_ends_the_lease(
    make_spawner: Make, scheduler: Any
) -> None:
    spawner = make_spawner(HALF)
    spawner.fails_with = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await spawner.start()
    await _settle()
    assert scheduler.paths() == [ACQUIRE, END]


async def test_a_server_whose_slice_is_not_confirmed_does_not_run_on(
    make_spawner: Make, scheduler: Any
) -> None:
    scheduler.refuse(STARTED, 409, "InvalidTransition", "The grant has ended.")
    spawner = make_spawner(HALF)
    with pytest.raises(HTTPError) as refused:
        await spawner.start()
    assert refused.value.status_code == 503
    assert not spawner.running


async def test_without_a_scheduler_a_gpu_is_refused_and_cpu_offered(
    make_spawner: Make, scheduler: Any
) -> None:
    del scheduler.answers[ACQUIRE]
    spawner = make_spawner(HALF)
    with pytest.raises(HTTPError) as refused:
        await spawner.start()
    assert refused.value.status_code == 503
    assert "take CPU" in str(
        getattr(refused.value, "message", None) or refused.value.jupyterhub_message
    )


async def test_an_acquire_repeated_after_a_lost_answer_carries_the_same_key(
    make_spawner: Make, scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str | None] = []
    answer = scheduler.handle

    def flaky(request: Any) -> Any:
        if request.url.path.endswith("acquire"):
            keys.append(request.headers.get("Idempotency-Key"))
            if len(keys) == 1:
                scheduler.answers.pop(ACQUIRE, None)
            else:
                scheduler.answer(ACQUIRE, 200, good)
        return answer(request)

    good = scheduler.answers[ACQUIRE][1]
    monkeypatch.setattr(scheduler, "handle", flaky)
    spawner = make_spawner(HALF)
    await spawner.start()
    assert len(keys) == 2
    assert keys[0] is not None
    assert keys[0] == keys[1]


async def test_the_end_of_a_server_is_told_until_the_scheduler_hears_it(
    make_spawner: Make, scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawner = make_spawner(HALF)
    await spawner.start()
    good = scheduler.answers.pop(END)
    answer = scheduler.handle

    def deaf_at_first(request: Any) -> Any:
        if scheduler.paths().count(END) == 2:
            scheduler.answers[END] = good
        return answer(request)

    monkeypatch.setattr(scheduler, "handle", deaf_at_first)
    spawner.transport = httpx.MockTransport(scheduler.handle)
    await spawner.stop()
    assert scheduler.paths().count(END) == 3


async def test_the_lease_survives_a_restart_of_the_hub(make_spawner: Make, scheduler: Any) -> None:
    before = make_spawner(HALF)
    await before.start()
    after = make_spawner(HALF)
    after.load_state(before.get_state())
    after.running = True
    assert await after.poll() is None
    assert after.held_slice == before.held_slice
    await after.stop()
    assert scheduler.paths().count(END) == 1


async def test_a_hub_that_ends_before_the_scheduler_has_heard_finds_the_server_again(
    make_spawner: Make, scheduler: Any
) -> None:
    """What is kept by then has its process; else the next hub would take it for gone."""
    spawner, kept = make_spawner(HALF), []
    spawner.orm_spawner = SimpleNamespace(name="", state={}, server=None)
    spawner._deprecated_db_session = SimpleNamespace(commit=lambda: None)

    def answer(request: httpx.Request) -> httpx.Response:
        kept.append((request.url.path, dict(spawner.orm_spawner.state)))
        return cast("httpx.Response", scheduler.handle(request))

    spawner.transport = httpx.MockTransport(answer)
    await spawner.start()
    [(_, before), (_, after)] = kept
    assert "pid" not in before
    assert after["pid"] == 4242
    assert after["gpucommons_lease"]["id"]


def restarted_in_the_middle_of_a_start(make_spawner: Make, scheduler: Any) -> Any:
    """What a restarted hub knows of a start that the last one did not see through."""
    spawner = make_spawner(HALF)
    granted = scheduler.answers[ACQUIRE][1]
    spawner.load_state({"gpucommons_lease": granted})
    spawner.running = True
    return spawner


async def test_a_hub_back_in_the_middle_of_a_start_waits_for_a_scheduler_that_is_away(
    make_spawner: Make, scheduler: Any
) -> None:
    good = scheduler.answers.pop(STARTED)
    spawner = restarted_in_the_middle_of_a_start(make_spawner, scheduler)
    assert await spawner.poll() is None
    assert spawner.running
    assert spawner.held_slice is not None
    scheduler.answers[STARTED] = good
    asked = scheduler.paths().count(STARTED)
    assert await spawner.poll() is None
    assert await spawner.poll() is None
    assert scheduler.paths().count(STARTED) == asked + 1


@pytest.mark.parametrize(("status", "code"), [(409, "InvalidTransition"), (404, "NotFound")])
async def test_a_hub_back_in_the_middle_of_a_start_stops_a_server_whose_grant_has_ended(
    make_spawner: Make, scheduler: Any, status: int, code: str
) -> None:
    scheduler.refuse(STARTED, status, code, "The grant has ended.")
    spawner = restarted_in_the_middle_of_a_start(make_spawner, scheduler)
    await spawner.poll()
    assert not spawner.running


async def test_a_cpu_start_after_a_gpu_start_keeps_nothing_of_the_slice(
    make_spawner: Make, scheduler: Any
) -> None:
    spawner = make_spawner(HALF)
    await spawner.start()
    await spawner.stop()
    spawner.clear_state()
    spawner.user_options = {"milli_gpu": 0}
    await spawner.start()
    assert spawner.held_slice is None
    assert "gpucommons_lease" not in spawner.get_state()


async def test_progress_says_where_the_notebook_is_placed(
    make_spawner: Make, scheduler: Any
) -> None:
    spawner = make_spawner(HALF)
    events: list[dict[str, Any]] = []

    async def follow() -> None:
        events.extend([event async for event in spawner.progress()])

    followers = [asyncio.create_task(follow()), asyncio.create_task(follow())]
    await spawner.start()
    await asyncio.gather(*followers)
    texts = [event["message"] for event in events]
    assert texts.count("Asking for ½ GPU") == 2
    assert texts.count("Placed on gpu-03 (½ of A100-40, simulated), starting") == 2
    # The hub's page shows the last event only.
    assert texts[-1].startswith("Placed on")
    assert not any("html_message" in event for event in events)


async def test_bad_options_are_refused_before_anything_is_taken(
    make_spawner: Make, scheduler: Any
) -> None:
    spawner = make_spawner({"milli_gpu": "much"})
    with pytest.raises(HTTPError) as refused:
        await spawner.load_user_options()
    assert refused.value.status_code == 400
    with pytest.raises(HTTPError):
        spawner.options_from_form({"milli_gpu": ["much"]})
    assert scheduler.requests == []


def test_the_token_is_never_shown_by_a_spawner(make_spawner: Make) -> None:
    spawner = make_spawner()
    spawner.scheduler_token = "tiptop-secret"
    assert "tiptop-secret" not in repr(spawner)
    assert "tiptop-secret" not in str(spawner.get_state())


async def test_a_restart_asks_again_with_a_new_key_until_its_last_slice_is_seen_empty(
    make_spawner: Make, scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str | None] = []
    answer, good = scheduler.handle, scheduler.answers[ACQUIRE][1]

    def clearing_once(request: Any) -> Any:
        if request.url.path.endswith("acquire"):
            keys.append(request.headers.get("Idempotency-Key"))
            if len(keys) == 1:
                scheduler.refuse(ACQUIRE, 409, "SliceClearing", "still being cleared")
            else:
                scheduler.answer(ACQUIRE, 200, good)
        return answer(request)

    monkeypatch.setattr(scheduler, "handle", clearing_once)
    spawner = make_spawner(HALF)
    await spawner.start()
    assert len(set(keys)) == 2
