"""A namespace under our admission policies, and the people who try their luck in it."""

from __future__ import annotations

import json
import ssl
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from kubernetes import client

from tests.kubernetes.api import wait_for
from tests.kubernetes.pods import RESTRICTED

#: Labels of a namespace, without their group, by which the policies judge in it.
GUARDED = {"guarded": "true"}
POLICIES = Path(__file__).parents[2] / "deploy/helm/gpucommons/files/policies"
RESERVATION_PRIORITY = 1_000_000


class Refused(Exception):
    """The API server says no; its words say why."""


@dataclass(frozen=True, kw_only=True)
class Person:
    """Somebody with a token of this cluster."""

    username: str
    http: httpx.Client
    token: str = field(default="", repr=False)

    def ask(self, method: str, path: str, body: Any = None, *, patch: str = "merge-patch") -> Any:
        """Any request, as its JSON; a Refused where it is refused."""
        kind = f"application/{patch}+json" if method == "PATCH" else "application/json"
        content = None if body is None else json.dumps(body)
        answer = self.http.request(method, path, content=content, headers={"Content-Type": kind})
        if answer.is_error:
            raise Refused(str(answer.json().get("message")))
        return answer.json()

    def refused(
        self, method: str, path: str, body: Any = None, *, patch: str = "merge-patch"
    ) -> str:
        """The sentence of the policy that refuses it; fails where anything else happens."""
        try:
            self.ask(method, path, body, patch=patch)
        except Refused as refusal:
            message = str(refusal)
            assert "ValidatingAdmissionPolicy 'gpucommons-" in message, message
            return message.split("denied request: ", 1)[1]
        message = f"{method} {path} was allowed"
        raise AssertionError(message)


@dataclass(frozen=True, kw_only=True)
class Guarded:
    """The namespace and who is in it."""

    namespace: str
    #: The hub's account, in a namespace of its own.
    hub: Person
    #: A notebook user whose account has the role `edit`, and more than that.
    user: Person
    admin: Person

    def path(self, resource: str, name: str = "", sub: str = "") -> str:
        """Of a resource of the namespace."""
        groups = {
            "jobs": "apis/batch/v1",
            "cronjobs": "apis/batch/v1",
            "deployments": "apis/apps/v1",
            "replicasets": "apis/apps/v1",
            "statefulsets": "apis/apps/v1",
            "daemonsets": "apis/apps/v1",
            "resourceclaims": "apis/resource.k8s.io/v1",
        }
        parts = [groups.get(resource, "api/v1"), "namespaces", self.namespace, resource, name, sub]
        return "/" + "/".join(filter(None, parts))


def policies(unique: str, accounts: str) -> list[dict[str, Any]]:
    """The shipped policies under names of this test, so that several can be in one cluster."""
    found = []
    for file in sorted(POLICIES.glob("*.yaml")):
        text = file.read_text()
        text = text.replace("gpucommons-accounts", accounts)
        text = text.replace("gpucommons-protected-accounts", accounts)
        text = text.replace("gpucommons-reservation-priority", str(RESERVATION_PRIORITY))
        for label in ("guarded", "team"):
            text = text.replace(f"gpucommons.io/{label}", f"gpucommons.io/{label}-{unique}")
        for document in yaml.safe_load_all(text):
            document["metadata"]["name"] += f"-{unique}"
            if "policyName" in document["spec"]:
                document["spec"]["policyName"] += f"-{unique}"
            found.append(document)
    return found


@contextmanager
def guarded(
    api: client.ApiClient, *, by: Mapping[str, str] = GUARDED, **more_labels: str
) -> Iterator[Guarded]:
    """Install the policies, and a namespace that they guard; both are gone afterwards."""
    unique = uuid.uuid4().hex[:8]
    core, rules = client.CoreV1Api(api), client.AdmissionregistrationV1Api(api)
    system, users = f"gcp-system-{unique}", f"gcp-users-{unique}"
    accounts = f"system:serviceaccount:{system}:hub system:serviceaccount:{users}:careless-hub"
    core.create_namespace({"metadata": {"name": system}})
    ours = {f"gpucommons.io/{label}-{unique}": value for label, value in by.items()}
    labels = {**ours, **more_labels}
    core.create_namespace({"metadata": {"name": users, "labels": labels}})
    try:
        hub = _account(api, system, "hub", into=users, role=_hub_role())
        user = _account(api, users, "notebook-user", into=users, role=_user_role())
        # A hub in the very namespace of its users, as Zero to JupyterHub installs it.
        core.create_namespaced_service_account(users, {"metadata": {"name": "careless-hub"}})
        for document in policies(unique, accounts):
            if document["kind"] == "ValidatingAdmissionPolicy":
                rules.create_validating_admission_policy(document)
            else:
                rules.create_validating_admission_policy_binding(document)
        found = Guarded(
            namespace=users, hub=hub, user=user, admin=Person(username="admin", http=connect(api))
        )
        _wait_until_in_force(found)
        yield found
        for person in (found.hub, found.user, found.admin):
            person.http.close()
    finally:
        for document in policies(unique, accounts):
            name = document["metadata"]["name"]
            if document["kind"] == "ValidatingAdmissionPolicy":
                rules.delete_validating_admission_policy(name)
            else:
                rules.delete_validating_admission_policy_binding(name)
        for namespace in (users, system):
            core.delete_namespace(namespace)


def pod(**spec: Any) -> dict[str, Any]:
    """A harmless pod, with this in its spec; `container` and `metadata` go where they belong."""
    container = {"name": "one", "image": "lab:1", **spec.pop("container", {})}
    metadata = {"generateName": "mine-", **spec.pop("metadata", {})}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def _wait_until_in_force(found: Guarded) -> None:
    """The API server reads policies a moment after they are made."""
    probes = [
        ("pods", pod(nodeName="anywhere", container={"securityContext": RESTRICTED})),
        ("configmaps", {"metadata": {"name": "probe"}, "data": {"LD_PRELOAD": "x"}}),
    ]

    def in_force() -> bool:
        for resource, body in probes:
            try:
                found.user.ask("POST", found.path(resource) + "?dryRun=All", body)
            except Refused as refusal:
                if "ValidatingAdmissionPolicy" not in str(refusal):
                    return False
            else:
                return False
        return _is_allowed(found)

    wait_for(in_force, "the policies in force", seconds=120)


def _is_allowed(found: Guarded) -> bool:
    """Whether the hub is not bound by them."""
    allowed = pod(container={"securityContext": RESTRICTED})
    try:
        found.hub.ask("POST", found.path("pods") + "?dryRun=All", allowed)
    except Refused:
        return False
    return True


def _account(
    api: client.ApiClient, home: str, name: str, *, into: str, role: Mapping[str, Any]
) -> Person:
    core, rbac = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api)
    core.create_namespaced_service_account(home, {"metadata": {"name": name}})
    rbac.create_namespaced_role(into, {"metadata": {"name": name}, **role})
    for ref in ({"kind": "Role", "name": name}, {"kind": "ClusterRole", "name": "edit"}):
        binding = {
            "metadata": {"generateName": "test-"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": home}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", **ref},
        }
        rbac.create_namespaced_role_binding(into, binding)
    token = core.create_namespaced_service_account_token(name, home, {"spec": {}})
    username = f"system:serviceaccount:{home}:{name}"
    given = token.status.token
    return Person(username=username, http=connect(api, token=given), token=given)


def connect(api: client.ApiClient, *, token: str | None = None) -> httpx.Client:
    """Plain requests to the same server, as its administrator or with another's token."""
    settings = api.configuration
    context = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    headers = {"Accept": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    else:
        if settings.cert_file:
            context.load_cert_chain(settings.cert_file, settings.key_file)
        if given := settings.api_key.get("authorization") or settings.api_key.get("BearerToken"):
            headers["Authorization"] = given
    return httpx.Client(
        base_url=settings.host, verify=context, headers=headers, trust_env=False, timeout=30
    )


def _hub_role() -> Mapping[str, Any]:
    return {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}


def _user_role() -> Mapping[str, Any]:
    """More than `edit` has: what a careless admin may have added."""
    return {
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["pods/ephemeralcontainers", "pods/resize", "podtemplates"],
                "verbs": ["*"],
            },
            {"apiGroups": ["resource.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        ]
    }
