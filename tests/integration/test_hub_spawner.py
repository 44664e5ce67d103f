"""The spawner inside a real JupyterHub, from its form and from its API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from bs4 import BeautifulSoup
from integration.running_hub import TICKET_ID

from gpucommons.scheduler.hub.hub import Hub

pytestmark = pytest.mark.hub


@pytest.fixture(autouse=True)
def _stopped_afterwards(hub: Any) -> Iterator[None]:
    yield
    for user in ("alice", "ada"):
        hub.stop_server(user)
    assert hub.scheduler.held_milli_gpu == 0


def spawn_by_form(hub: Any, user: str, fields: dict[str, str]) -> tuple[int, str]:
    with hub.browser(user) as browser:
        page = browser.get("/hub/spawn", follow_redirects=True)
        form = BeautifulSoup(page.text, "html.parser").find("form", id="spawn_form")
        files = {name: (None, value) for name, value in fields.items()}
        answer = browser.post(form["action"], files=files)
        return answer.status_code, answer.text


def test_a_cpu_notebook_starts_without_a_lease_and_is_told_it_has_no_gpu(hub: Any) -> None:
    assert hub.start_server("alice", {}).status_code == 201
    assert hub.scheduler.leases == {}
    env = hub.server_env("alice")
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert env["GPUCOMMONS_SHARED_ACCOUNT"] == "1"
    assert "GPUCOMMONS_SLICE_ID" not in env


def test_half_a_gpu_is_leased_injected_and_bound_to_the_process(hub: Any) -> None:
    answer = hub.start_server("alice", {"milli_gpu": 500, "team": "vision", "pool": "gpu"})
    assert answer.status_code == 201, answer.text
    [(lease_id, lease)] = hub.scheduler.leases.items()
    assert (lease["user"], lease["state"]) == ("alice", "active")
    env = hub.server_env("alice")
    assert env["GPUCOMMONS_LEASE_ID"] == lease_id
    assert env["GPUCOMMONS_URL"] == hub.scheduler.url
    assert env["GPUCOMMONS_SLICE_SOCKET"].endswith(f"/slices/{lease_id}/usage.sock")
    assert hub.scheduler.started[lease_id] > 1
    hub.stop_server("alice")
    assert hub.scheduler.ended[-1] == (lease_id, "stopped")


def test_what_is_not_free_is_refused_with_409_and_the_schedulers_sentence(hub: Any) -> None:
    assert hub.start_server("ada", {"milli_gpu": 500}).status_code == 201
    answer = hub.start_server("alice", {"milli_gpu": 1000})
    assert answer.status_code == 409
    assert answer.json()["message"] == (
        "1 GPU was asked and vision has 0.5 free: take a smaller size, or wait in line."
    )
    assert hub.server("alice") is None


def test_a_refusal_is_no_traceback_in_the_hubs_log(hub: Any) -> None:
    before = len(hub.log)
    hub.start_server("alice", {"milli_gpu": 4000})
    assert "Traceback" not in hub.log[before:]


async def test_the_scheduler_reads_the_options_of_a_servers_last_start(hub: Any) -> None:
    options = {"milli_gpu": 0, "profile": "torch"}
    assert hub.start_server("alice", options).status_code == 201
    schedulers = Hub(f"{hub.url}/hub/api", token=hub.facts["service_token"])
    try:
        assert await schedulers.options_of("alice", "") == options
        hub.stop_server("alice")
        assert await schedulers.options_of("alice", "") == options
        assert await schedulers.options_of("alice", "never") == {}
    finally:
        await schedulers.close()


def test_bad_options_of_the_api_are_refused_with_a_sentence(hub: Any) -> None:
    answer = hub.start_server("alice", {"milli_gpu": "0.5"})
    assert answer.status_code == 400
    assert "500 is ½" in answer.json()["message"]
    assert hub.server("alice") is None


def test_the_form_shows_the_live_quota_and_starts_what_is_chosen(hub: Any) -> None:
    assert hub.start_server("ada", {"milli_gpu": 500}).status_code == 201
    with hub.browser("alice") as browser:
        page = browser.get("/hub/spawn", follow_redirects=True)
    text = " ".join(BeautifulSoup(page.text, "html.parser").get_text(" ").split())
    assert "Start a notebook" in text
    assert "vision: ½ of 1 notebook GPUs free" in text
    assert "GPU Commons" in text
    assert "Wait in line" in text
    status, _ = spawn_by_form(hub, "alice", {"offer": "vision/gpu/500"})
    assert status == 302
    assert hub.server("alice") is not None
    assert hub.scheduler.held_milli_gpu == 1000


def test_an_admin_in_no_team_is_told_how_to_join_one_and_others_whom_to_ask(hub: Any) -> None:
    pages = {}
    for user in ("admin", "operator"):
        with hub.browser(user) as browser:
            page = browser.get("/hub/spawn", follow_redirects=True)
        pages[user] = " ".join(BeautifulSoup(page.text, "html.parser").get_text(" ").split())
    assert "Add yourself to one: to its members in the configuration" in pages["admin"]
    assert "Ask your admin to add you to one." in pages["operator"]


def test_the_form_comes_back_with_the_reason_when_the_gpu_went_to_someone_else(hub: Any) -> None:
    assert hub.start_server("ada", {"milli_gpu": 1000}).status_code == 201
    status, page = spawn_by_form(hub, "alice", {"offer": "vision/gpu/500"})
    assert status == 409
    assert "0.5 GPU was asked and vision has 0 free" in page
    assert "spawn_form" in page


def test_the_form_comes_back_with_the_reason_for_bad_fields(hub: Any) -> None:
    status, page = spawn_by_form(hub, "alice", {"offer": "vision/gpu/<i>"})
    assert status == 400
    assert "500 is ½" in page
    assert "<i>" not in page


def test_a_link_with_options_starts_what_it_says(hub: Any) -> None:
    with hub.browser("alice") as browser:
        answer = browser.get("/hub/spawn/alice", params={"opt-milli_gpu": "250"})
    assert answer.status_code == 302
    assert [lease["milli_gpu"] for lease in hub.scheduler.leases.values()] == [250]


def test_one_link_starts_again_what_was_started_last(hub: Any) -> None:
    status, _ = spawn_by_form(hub, "alice", {"offer": "vision/gpu/500"})
    assert status == 302
    hub.stop_server("alice")
    with hub.browser("alice") as browser:
        home = browser.get("/hub/home")
        again = browser.get("/hub/spawn/alice", params={"opt-again": "1"})
    assert home.status_code == 200
    assert again.status_code == 302
    assert [lease["milli_gpu"] for lease in hub.scheduler.leases.values()] == [500]


def test_what_was_started_last_and_is_not_free_leads_to_a_ticket(hub: Any) -> None:
    status, _ = spawn_by_form(hub, "alice", {"offer": "vision/gpu/500"})
    assert status == 302
    hub.stop_server("alice")
    assert hub.start_server("ada", {"milli_gpu": 1000}).status_code == 201
    found = []
    with hub.browser("alice") as browser:
        for site in ("same-origin", "cross-site"):
            answer = browser.get(
                "/hub/spawn/alice", params={"opt-again": "1"}, headers={"Sec-Fetch-Site": site}
            )
            assert answer.status_code == 303
            found.append(answer.headers["Location"].partition("/services/")[2])
    assert found[0] == f"gpucommons/ticket/{TICKET_ID}"
    assert found[1] == "gpucommons/ticket?team=vision&pool=gpu&milli_gpu=500"
    assert hub.server("alice") is None


def test_who_never_started_anything_gets_the_form_for_it(hub: Any) -> None:
    with hub.browser("operator") as browser:
        answer = browser.get("/hub/spawn/operator", params={"opt-again": "1"})
    assert answer.status_code == 400
    assert "Nothing was started here before: choose a size." in answer.text
    assert hub.scheduler.leases == {}


def test_a_cpu_start_after_a_gpu_start_carries_nothing_of_the_slice(hub: Any) -> None:
    hub.start_server("alice", {"milli_gpu": 500})
    assert "GPUCOMMONS_SLICE_ID" in hub.server_env("alice")
    hub.stop_server("alice")
    hub.start_server("alice", {"milli_gpu": 0})
    env = hub.server_env("alice")
    assert not [name for name in env if name.startswith(("GPUCOMMONS_SLICE", "GPUCOMMONS_LEASE"))]
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert hub.scheduler.leases == {}


def test_a_notebooks_own_token_acts_for_its_user_and_never_as_an_admin(hub: Any) -> None:
    hub.start_server("alice", {})
    token = hub.server_env("alice")["JUPYTERHUB_API_TOKEN"]
    model = hub.api.get("/user", headers={"Authorization": f"token {token}"}).json()
    assert model["groups"] == ["vision"]
    assert "custom:gpucommons:submit!user=alice" in model["scopes"]
    assert "custom:gpucommons:read!user=alice" in model["scopes"]
    assert not [scope for scope in model["scopes"] if "admin" in scope or "lease" in scope]


def test_each_service_may_do_its_own_work_and_no_more(hub: Any) -> None:
    def scopes(token: str) -> set[str]:
        headers = {"Authorization": f"token {hub.facts[token]}"}
        return set(hub.api.get("/user", headers=headers).json()["scopes"])

    assert scopes("spawner_token") == {"custom:gpucommons:lease"}
    culler, service = scopes("culler_token"), scopes("service_token")
    assert {"delete:servers", "custom:gpucommons:lease"} <= culler
    assert not {"servers", "start:servers", "admin:users"} & culler
    assert "servers" in service
    assert not [scope for scope in service if scope.startswith(("admin", "custom"))]
    spawner = {"Authorization": f"token {hub.facts['spawner_token']}"}
    assert hub.api.get("/users", headers=spawner).status_code == 403
    culler_header = {"Authorization": f"token {hub.facts['culler_token']}"}
    started = hub.api.post("/users/alice/server", json={}, headers=culler_header)
    assert started.status_code == 403


def test_the_lease_outlives_a_killed_hub_and_ends_with_its_server(hub: Any) -> None:
    hub.start_server("alice", {"milli_gpu": 500})
    [lease_id] = hub.scheduler.leases
    hub.kill()
    hub.start()
    assert hub.server("alice") is not None
    assert list(hub.scheduler.leases) == [lease_id]
    hub.stop_server("alice")
    assert (lease_id, "stopped") in hub.scheduler.ended


def test_no_token_is_ever_logged(hub: Any) -> None:
    hub.start_server("alice", {"milli_gpu": 250})
    for name in ("spawner_token", "service_token", "culler_token", "password"):
        assert hub.facts[name] not in hub.log
