"""Only ``Authorization`` counts; hub answers are remembered briefly, and not before admin writes."""

from __future__ import annotations

import os
from types import SimpleNamespace

import httpx
import pytest
from service_world import ADMIN, SUBMIT, FakeHubServer, ServiceWorld

from gpucommons.scheduler.api.authentication import (
    KNOWN_FOR_MS,
    SERVICE_KNOWN_FOR_MS,
    UNKNOWN_FOR_MS,
    Credentials,
    HubAuthenticator,
    PeerAuthenticator,
    identity_of,
    read_token,
)
from gpucommons.scheduler.errors import NotAuthenticated, Unavailable
from gpucommons.scheduler.hub.hub import HubUser
from gpucommons.scheduler.principal import PrincipalKind, Right, read_rights, resolve


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def authenticator(hub: FakeHubServer, clock: Clock) -> HubAuthenticator:
    return HubAuthenticator(hub.hub(), now_ms=clock)


async def test_a_token_is_looked_up_once_in_30_s(
    hub: FakeHubServer, clock: Clock, authenticator: HubAuthenticator
) -> None:
    for clock.now_ms in (0, KNOWN_FOR_MS - 1):
        identity = await authenticator.identify(Credentials(token="ann-token"))
        assert identity is not None
        assert (identity.name, identity.kind) == ("ann", PrincipalKind.USER)
    assert len(hub.asked) == 1
    clock.now_ms = KNOWN_FOR_MS
    await authenticator.identify(Credentials(token="ann-token"))
    assert len(hub.asked) == 2


async def test_unknown_tokens_are_remembered_for_moments(
    hub: FakeHubServer, clock: Clock, authenticator: HubAuthenticator
) -> None:
    for clock.now_ms in (0, UNKNOWN_FOR_MS - 1):
        assert await authenticator.identify(Credentials(token="new-token")) is None
    assert len(hub.asked) == 1
    hub.tokens["new-token"] = {"kind": "user", "name": "new", "scopes": []}
    clock.now_ms = UNKNOWN_FOR_MS
    assert await authenticator.identify(Credentials(token="new-token")) is not None


async def test_no_user_of_the_hub_is_an_account_that_is_nobodys(
    hub: FakeHubServer, authenticator: HubAuthenticator
) -> None:
    for name, is_known in (("uid-0", False), ("uid-4711", False), ("uid-ada", True)):
        hub.tokens[f"{name}-token"] = {"kind": "user", "name": name, "scopes": []}
        found = await authenticator.identify(Credentials(token=f"{name}-token"))
        assert (found is not None) is is_known


async def test_fresh_means_asked_now(hub: FakeHubServer, authenticator: HubAuthenticator) -> None:
    await authenticator.identify(Credentials(token="root-token"))
    del hub.tokens["root-token"]
    assert await authenticator.identify(Credentials(token="root-token")) is not None
    assert await authenticator.identify(Credentials(token="root-token", fresh=True)) is None
    assert await authenticator.identify(Credentials(token="root-token")) is None


async def test_a_hub_that_fails_is_not_a_refusal(
    hub: FakeHubServer, authenticator: HubAuthenticator
) -> None:
    hub.status = 502
    with pytest.raises(Unavailable):
        await authenticator.identify(Credentials(token="ann-token"))
    hub.status = None
    assert await authenticator.identify(Credentials(token="ann-token")) is not None


async def test_a_hub_that_goes_down_still_ends_the_leases_of_its_servers(
    hub: FakeHubServer, clock: Clock, authenticator: HubAuthenticator
) -> None:
    spawner, user = Credentials(token="hub-token"), Credentials(token="ann-token")
    known = await authenticator.identify(spawner)
    assert known is not None
    await authenticator.identify(user)
    hub.status = 502
    clock.now_ms = SERVICE_KNOWN_FOR_MS - 1
    assert await authenticator.identify(spawner) == known
    with pytest.raises(Unavailable):
        await authenticator.identify(user)
    clock.now_ms = SERVICE_KNOWN_FOR_MS
    with pytest.raises(Unavailable):
        await authenticator.identify(spawner)


async def test_a_spawner_that_was_silent_for_hours_still_ends_leases_when_its_hub_goes_down(
    hub: FakeHubServer, clock: Clock, authenticator: HubAuthenticator
) -> None:
    spawner = Credentials(token="hub-token")
    known = await authenticator.identify(spawner)
    clock.now_ms = hours_ms = 3 * 3_600_000
    await authenticator.identify(Credentials(token="culler-token"))
    hub.status = 502
    clock.now_ms += 1000
    assert await authenticator.identify(spawner) == known
    clock.now_ms = hours_ms + SERVICE_KNOWN_FOR_MS
    with pytest.raises(Unavailable):
        await authenticator.identify(spawner)


async def test_an_admin_who_was_demoted_writes_nothing(
    hub: FakeHubServer, http: httpx.AsyncClient
) -> None:
    headers = {"Authorization": "Bearer root-token"}
    assert (await http.get("/v1/config", headers=headers)).status_code == 200
    hub.tokens["root-token"] = {"kind": "user", "name": "root", "scopes": [f"{SUBMIT}!user=root"]}
    assert (await http.put("/v1/config", json={}, headers=headers)).status_code == 403


async def test_cookies_and_query_tokens_are_ignored(http: httpx.AsyncClient) -> None:
    http.cookies.set("jupyterhub-services", "ann-token")
    http.cookies.set("token", "ann-token")
    response = await http.get("/v1/whoami", params={"token": "ann-token"})
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "token"


@pytest.mark.parametrize("header", ["", "token", "Basic abc", "ann-token", "token " + "x" * 600])
async def test_odd_headers_are_refused(http: httpx.AsyncClient, header: str) -> None:
    response = await http.get("/v1/whoami", headers={"Authorization": header})
    assert response.status_code == 401


@pytest.mark.parametrize("token", [b"\xe9", "é".encode(), b"a\tb", b"a b"])
async def test_a_token_that_cannot_be_one_is_refused_without_asking_the_hub(
    http: httpx.AsyncClient, hub: FakeHubServer, token: bytes
) -> None:
    response = await http.get("/v1/whoami", headers={"Authorization": b"token " + token})
    assert (response.status_code, response.json()["error"]) == (401, "NotAuthenticated")
    assert hub.asked == []


def test_both_schemes_are_read() -> None:
    assert read_token("token abc") == read_token("Bearer abc") == read_token("bearer  abc") == "abc"
    assert read_token(None) is None
    with pytest.raises(NotAuthenticated):
        read_token("Basic abc")


async def test_the_operator_at_the_socket_is_admin_others_submit() -> None:
    authenticator = PeerAuthenticator(operator_uid=4711)
    assert await authenticator.identify(Credentials()) is None
    assert await authenticator.identify(Credentials(token="x", peer_uid=4711)) is None
    operator = await authenticator.identify(Credentials(peer_uid=4711))
    someone = await authenticator.identify(Credentials(peer_uid=4712))
    assert operator is not None
    assert someone is not None
    assert resolve(operator, {}).admin
    assert not resolve(someone, {}).admin
    assert resolve(someone, {}).holds("submit")
    assert someone.name == "uid-4712"
    root = await authenticator.identify(Credentials(peer_uid=0))
    assert root is not None
    assert root.name == "root"
    assert os.getuid() >= 0


@pytest.mark.parametrize(
    ("template", "account", "name"),
    [
        ("{username}", "ada", "ada"),
        ("jupyter-{username}", "jupyter-ada", "ada"),
        # Somebody who has an account of the machine called as a user of the hub.
        ("jupyter-{username}", "ada", "uid-4712"),
    ],
)
async def test_an_account_at_the_socket_is_the_user_whose_notebooks_run_as_it(
    monkeypatch: pytest.MonkeyPatch, template: str, account: str, name: str
) -> None:
    monkeypatch.setattr("pwd.getpwuid", lambda _uid: SimpleNamespace(pw_name=account))
    authenticator = PeerAuthenticator(operator_uid=4711, account_template=template)
    someone = await authenticator.identify(Credentials(peer_uid=4712))
    operator = await authenticator.identify(Credentials(peer_uid=4711))
    assert someone is not None
    assert operator is not None
    assert (someone.name, operator.name) == (name, name.replace("4712", "4711"))


def test_scopes_imply_and_filters_bind() -> None:
    assert read_rights([f"{SUBMIT}!user=ann"]) == {
        Right(verb="submit", filtered_by="user", value="ann"),
        Right(verb="read", filtered_by="user", value="ann"),
    }
    assert {right.verb for right in read_rights([ADMIN])} == {"admin", "submit", "read"}
    assert read_rights([f"{ADMIN}!user=ann", "custom:other:admin", "admin:users"]) == frozenset()


@pytest.mark.parametrize(
    ("scope", "name", "may"),
    [
        (f"{SUBMIT}!user=ann", "ann", True),
        (f"{SUBMIT}!user=bob", "ann", False),
        (f"{SUBMIT}!server=ann/lab", "ann", True),
        (f"{SUBMIT}!server=bob/", "ann", False),
        (f"{SUBMIT}!group=vision", "ann", True),
        (SUBMIT, "ann", True),
        ("custom:gpucommons:read", "ann", False),
    ],
)
def test_a_filtered_scope_is_for_that_user_alone(
    world: ServiceWorld, scope: str, name: str, *, may: bool
) -> None:
    assert world.principal(name, scope).holds("submit") is may


def test_admin_of_a_group_leads_its_team(world: ServiceWorld) -> None:
    lead = world.principal("carl", f"{ADMIN}!group=nlp-people")
    assert (lead.admin, lead.leads) == (False, {"nlp"})
    assert world.principal("carl", ADMIN).admin


def test_a_server_token_says_which_server() -> None:
    scopes = frozenset({"access:servers!server=ann/lab", f"{SUBMIT}!user=ann"})
    user = HubUser(name="ann", is_service=False, groups=frozenset(), scopes=scopes)
    assert identity_of(user, culler="c").server_name == "lab"
    both = scopes | {"access:servers!server=ann/"}
    user = HubUser(name="ann", is_service=False, groups=frozenset(), scopes=both)
    assert identity_of(user, culler="c").server_name is None


def test_a_user_with_the_lease_scope_is_not_the_hub() -> None:
    scopes = frozenset({"custom:gpucommons:lease"})
    user = HubUser(name="eve", is_service=False, groups=frozenset(), scopes=scopes)
    assert identity_of(user, culler="c").kind is PrincipalKind.USER
