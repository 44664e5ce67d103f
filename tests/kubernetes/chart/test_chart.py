"""The chart as text: what Helm makes of it, held against Kubernetes' own schemas and our code."""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from published_schemas import validate

from gpucommons.gpu.agent.http_api.http_server import HttpApi
from gpucommons.gpu.agent.http_api.settings import HttpApiSettings, Inside
from gpucommons.gpu.agent.options import parse as agent_options
from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.client.agent_transports import HttpTransport
from gpucommons.gpu.errors import AgentUnavailable
from gpucommons.idle_culler.app import CullerApp
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings
from gpucommons.scheduler.models import ConfigModel
from gpucommons.scheduler.operator.options import read_settings as operator_settings
from gpucommons.scheduler.wiring import options as scheduler_options
from tests.kubernetes.chart.chart import (
    CHART,
    EXAMPLES,
    HelmRefused,
    helm,
    of_kind,
    pod_specs,
    rendered,
)
from tests.kubernetes.fixtures import need

VERSIONS = ("1.33.0", "1.34.0", "1.35.0", "1.36.0")
#: Not Kubernetes' own: nothing to hold them against.
_FOREIGN = {"PrometheusRule", "SecurityContextConstraints"}


@pytest.fixture(autouse=True)
def _helm() -> None:
    need("helm")


@pytest.mark.parametrize("path", [None, *EXAMPLES], ids=lambda one: one.stem if one else "default")
def test_lint_finds_nothing(path: Path | None) -> None:
    values = [] if path is None else ["--values", str(path)]
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), *values)


@pytest.mark.parametrize("path", [None, *EXAMPLES], ids=lambda one: one.stem if one else "default")
def test_every_document_is_one_that_these_versions_take(path: Path | None) -> None:
    documents = rendered(path)
    assert len(documents) > 30
    for version in VERSIONS:
        for document in documents:
            if document["kind"] not in _FOREIGN:
                validate(document, version, strict=True)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"scheduler.replicas": 2}, "SQLite is a file on one volume"),
        ({"database.kind": "postgresql"}, "name the Secret that holds its URL"),
        (
            {"database": {"kind": "postgresql", "postgresql": {"secret": "url"}}},
            "Set storage.kind to folder or object",
        ),
        ({"storage.kind": "folder"}, "storage.folder.claim"),
        ({"storage.kind": "object"}, "s3://BUCKET/PREFIX"),
        ({"culler.warnAfterSeconds": 9000}, "must be less than culler.idleAfterSeconds"),
        ({"jobs.namespace": "gpucommons"}, "may not run in the release's own namespace"),
        ({"agent.tls.secret": "own"}, "agent.tls: name both"),
        ({"agent.namespace": "gpucommons-jobs"}, "which could pass for agents"),
        ({"agent.namespace": "hub", "hub.namespace": "hub"}, "which could pass for agents"),
        ({"agent.namespace": ""}, "which could pass for agents"),
        ({"hibernation.enabled": True, "agent.enabled": False}, "the agents prepare the nodes"),
        (
            {"hibernation.enabled": True, "admissionPolicies.enabled": False},
            "from pods that may be root",
        ),
        ({"hibernation.enabled": True, "openshift.enabled": True}, "CRI-O and SELinux"),
        ({"hibernation.criu.hostPath": "criu"}, "/hibernation/criu/hostPath"),
        ({"database.sqlite.accessMode": "ReadWriteOncePod"}, "/database/sqlite/accessMode"),
        ({"scheduler.replica": 1}, "additional properties 'replica' not allowed"),
        ({"jobs.runAsUser": 0}, "/jobs/runAsUser"),
        ({"hub.apiUrl": "hub:8081"}, "/hub/apiUrl"),
        ({"image.pullPolicy": "Sometimes"}, "/image/pullPolicy"),
        ({"priorityClasses.placeholder": -11}, "/priorityClasses/placeholder"),
        ({"jobs.pools.train.provider": "mig"}, "/jobs/pools/train/provider"),
        ({"jobs.pools.train.scale_up": "karpenter"}, "/jobs/pools/train/scale_up"),
        ({"jobs.pools.train.shared_memory": "yes"}, "/jobs/pools/train/shared_memory"),
        ({"networkPolicy.metadataAddresses": ["metadata"]}, "/networkPolicy/metadataAddresses"),
    ],
)
def test_values_that_cannot_be_are_refused_in_words(values: dict[str, Any], says: str) -> None:
    with pytest.raises(HelmRefused, match=re.escape(says)):
        rendered(values)


def test_the_schema_knows_every_default_and_nothing_else() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def same(node: Any, given: Any, path: str) -> None:
        properties = node.get("properties")
        if properties is None or not isinstance(given, dict):
            return
        assert node["additionalProperties"] is False, path
        unset = properties.keys() - given.keys() - {"global", "pools", "teams", "policy"}
        if path != "/jobs/pod" and not path.endswith("/resources"):
            assert not unset, (path, unset)
        for key, value in given.items():
            same(properties[key], value, f"{path}/{key}")

    same(schema, values, "")


def test_secrets_made_once_by_hand_are_all_that_a_rendering_without_the_cluster_needs() -> None:
    whole = rendered({"secrets.create": False})
    assert not of_kind(whole, "Secret")
    asked = re.findall(
        r'"(?:secretName|secretKeyRef)": (?:{[^}]*"name": )?"([^"]+)"', json.dumps(whole)
    )
    by_hand = rendered(None, "--show-only", "templates/secrets.yaml")
    assert set(asked) == {one["metadata"]["name"] for one in by_hand}
    assert all("namespace" in one["metadata"] for one in by_hand)


# --- what the containers are told is what the programs take ----------------------------------


def arguments_of(documents: list[dict[str, Any]], name: str) -> list[str]:
    (spec,) = (spec for found, spec in pod_specs(documents) if found == name)
    return [str(one) for one in spec["containers"][0].get("args", [])]


@pytest.mark.parametrize("path", [None, *EXAMPLES], ids=lambda one: one.stem if one else "default")
def test_the_programs_understand_their_arguments(path: Path | None) -> None:
    documents = rendered(path)
    scheduler_options.parser().parse_args(arguments_of(documents, "gpucommons-scheduler"))
    operator_settings(arguments_of(documents, "gpucommons-operator"), {})
    agent_options(arguments_of(documents, "gpucommons-agent"))
    known = {f"--{name}" for name in CullerApp.aliases}
    asked = {one.partition("=")[0] for one in arguments_of(documents, "gpucommons-culler")}
    assert asked <= known


@pytest.mark.parametrize("path", [None, *EXAMPLES], ids=lambda one: one.stem if one else "default")
def test_a_scheduler_goes_only_when_its_successor_is_ready(path: Path | None) -> None:
    (made,) = (
        one
        for one in of_kind(rendered(path), "Deployment")
        if one["metadata"]["name"] == "gpucommons-scheduler"
    )
    strategy, spec = made["spec"]["strategy"], made["spec"]["template"]["spec"]
    assert strategy["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    (container,) = spec["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    alone = "--stand-by" in container["args"]
    assert alone == (not any("--leader-election" in word for word in container["args"]))
    assert alone == ("podAffinity" in spec.get("affinity", {}))
    if alone:
        (term,) = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        own = made["spec"]["template"]["metadata"]["labels"]
        assert term["labelSelector"]["matchLabels"].items() <= own.items()


def test_hibernation_is_off_by_default_and_then_reaches_the_agent_alone() -> None:
    plain = rendered()
    assert agent_options(arguments_of(plain, "gpucommons-agent")).hibernation is None
    assert "/var/run/cdi" not in json.dumps(plain)
    values = {"hibernation": {"enabled": True, "criu": {"hostPath": "/srv/criu"}}}
    documents = rendered(values)
    found = agent_options(arguments_of(documents, "gpucommons-agent"))
    assert found.hibernation == Path("/opt/gpucommons/criu/root")
    assert not found.apparmor_allows_mounts
    assert volume(documents, "gpucommons-agent", "criu", "hostPath")["path"] == "/srv/criu"
    assert volume(documents, "gpucommons-agent", "devices", "hostPath")["path"] == str(
        found.cdi_dir
    )
    others = [one for one in documents if one["metadata"]["name"] != "gpucommons-agent"]
    assert "/var/run/cdi" not in json.dumps(others)
    for version in VERSIONS:
        for document in of_kind(documents, "DaemonSet"):
            validate(document, version, strict=True)


def test_agents_serve_pods_where_hub_and_scheduler_make_them() -> None:
    documents = rendered()
    found = agent_options(arguments_of(documents, "gpucommons-agent")).pod_namespaces
    (text,) = (
        one["data"]["kubernetes.yaml"]
        for one in of_kind(documents, "ConfigMap", "gpucommons-scheduler")
    )
    settings = KubernetesSettings.model_validate(yaml.safe_load(text))
    assert found == {settings.hub_namespace, *settings.job_namespaces}


@pytest.mark.parametrize(
    ("values", "prefix"),
    [
        ({}, "/services/gpucommons/"),
        ({"hub.baseUrl": "/jupyter/"}, "/jupyter/services/gpucommons/"),
        ({"hub.baseUrl": "/jupyter"}, "/jupyter/services/gpucommons/"),
        ({"hub.baseUrl": "/jupyter/", "hub.servicePrefix": "/gpus/"}, "/gpus/"),
    ],
)
def test_pages_are_served_below_the_hubs_base_url(values: dict[str, Any], prefix: str) -> None:
    [scheduler] = of_kind(rendered(values), "Deployment", "gpucommons-scheduler")
    [container] = scheduler["spec"]["template"]["spec"]["containers"]
    env = {one["name"]: one.get("value", "") for one in container["env"]}
    assert env["JUPYTERHUB_SERVICE_PREFIX"] == prefix
    assert env["JUPYTERHUB_BASE_URL"] == values.get("hub.baseUrl", "/").rstrip("/") + "/"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_scheduler_understands_its_files(path: Path) -> None:
    (found,) = of_kind(rendered(path), "ConfigMap", "gpucommons-scheduler")
    ConfigModel.model_validate(yaml.safe_load(found["data"]["config.yaml"]))
    settings = KubernetesSettings.model_validate(yaml.safe_load(found["data"]["kubernetes.yaml"]))
    assert settings.system_namespace == "gpucommons"


def test_every_mount_has_its_volume_and_every_secret_its_key() -> None:
    for path in EXAMPLES:
        for name, spec in pod_specs(rendered(path)):
            volumes = {one["name"] for one in spec.get("volumes", [])}
            for container in spec["containers"]:
                mounts = {one["name"] for one in container.get("volumeMounts", [])}
                assert mounts <= volumes, name


# --- safety -----------------------------------------------------------------------------------


def test_all_but_the_agent_are_restricted() -> None:
    for name, spec in pod_specs(rendered()):
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        (container,) = spec["containers"]
        own = container["securityContext"]
        assert own["readOnlyRootFilesystem"], name
        if name == "gpucommons-agent":
            continue
        assert spec["securityContext"]["runAsNonRoot"], name
        assert own["allowPrivilegeEscalation"] is False, name
        assert own["capabilities"] == {"drop": ["ALL"]}, name
        kinds = {key for volume in spec["volumes"] for key in volume} - {"name"}
        assert kinds <= {"configMap", "emptyDir", "secret", "persistentVolumeClaim"}, name


def selected(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a selector of this API takes these labels."""
    asks: dict[str, Callable[[dict[str, Any]], bool]] = {
        "Exists": lambda one: one["key"] in labels,
        "NotIn": lambda one: labels.get(one["key"]) not in one["values"],
    }
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        asks[one["operator"]](one) for one in selector.get("matchExpressions", [])
    )


@pytest.mark.parametrize(
    ("labels", "judged"),
    [
        ({"gpucommons.io/guarded": "true"}, True),
        ({"gpucommons.io/team": "vision"}, True),
        ({"gpucommons.io/team": "vision", "gpucommons.io/guarded": "true"}, True),
        ({"gpucommons.io/team": "vision", "gpucommons.io/guarded": "false"}, True),
        ({}, False),
    ],
)
def test_namespaces_of_teams_are_guarded_as_those_of_users(
    labels: dict[str, str], judged: bool
) -> None:
    judging = sorted(
        one["spec"]["policyName"]
        for one in of_kind(rendered(), "ValidatingAdmissionPolicyBinding")
        if "matchResources" in one["spec"]
        and selected(one["spec"]["matchResources"]["namespaceSelector"], labels)
    )
    # Each once: a refusal is said once.
    assert judging == (["gpucommons-names", "gpucommons-workloads"] if judged else [])


def test_the_recipe_for_a_teams_namespace_leaves_no_guard_out() -> None:
    page = (CHART.parents[2] / "docs/howto/use-kubernetes-objects.md").read_text()
    recipe = page.partition("## Give a team a namespace")[2].partition("## ")[0]
    for label in ("gpucommons.io/guarded=true", "pod-security.kubernetes.io/enforce=restricted"):
        assert label in recipe


def test_no_role_may_read_secrets_or_do_anything_it_likes() -> None:
    for role in of_kind(rendered(), "ClusterRole") + of_kind(rendered(), "Role"):
        for rule in role["rules"]:
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
            if "secrets" in rule["resources"]:
                assert rule["verbs"] == ["create"], role["metadata"]["name"]


@pytest.mark.parametrize(
    ("provider", "claims"), [("dra", True), ("kai", False), ("hami", False), (None, False)]
)
def test_claims_are_made_only_where_a_pool_uses_them(provider: str | None, claims: bool) -> None:
    pools = {"a": {"selector": {"gpu": "yes"}}, "b": {"provider": provider}, "c": {}}
    documents = rendered(None, "--set-json", f"jobs.pools={json.dumps(pools)}")
    allowed = [
        (role["metadata"]["name"], rule["resources"], rule["verbs"])
        for role in of_kind(documents, "ClusterRole") + of_kind(documents, "Role")
        for rule in role["rules"]
        if "resource.k8s.io" in rule["apiGroups"]
    ]
    looked = ("gpucommons-scheduler", ["deviceclasses"], ["get"])
    made = ("gpucommons-jobs", ["resourceclaimtemplates"], ["create"])
    assert allowed == ([looked, made] if claims else [])
    (config,) = of_kind(documents, "ConfigMap", "gpucommons-scheduler")
    described = KubernetesSettings.model_validate(yaml.safe_load(config["data"]["kubernetes.yaml"]))
    assert described.place_of("b").provider == provider


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_secrets_are_not_on_command_lines(path: Path) -> None:
    documents = rendered(path)
    for name, _ in pod_specs(documents):
        for argument in arguments_of(documents, name):
            assert not re.search("token=|password|://[^/]*:[^/]*@", argument), name


def test_notebooks_may_reach_what_zero_to_jupyterhub_lets_them() -> None:
    hub = {"hub.namespace": "jhub"}
    by_default = of_kind(rendered(hub), "NetworkPolicy")
    # Whatever a policy in this namespace allows is allowed, beside what theirs does.
    assert [one["metadata"]["name"] for one in by_default if _is_in(one, "jhub")] == []
    asked = of_kind(rendered(hub | {"networkPolicy.users": True}), "NetworkPolicy")
    assert [one["metadata"]["name"] for one in asked if _is_in(one, "jhub")] == ["gpucommons-users"]


def _is_in(document: dict[str, Any], namespace: str) -> bool:
    return bool(document["metadata"].get("namespace") == namespace)


def test_nobody_runs_as_an_account_that_applies_jobs_for_others_and_it_hands_out_no_gpus() -> None:
    trusted = "system:serviceaccount:argocd:controller"
    hub = "system:serviceaccount:jhub:hub"
    documents = rendered({"operator.trustedRequesters": [trusted, "ann"], "hub.namespace": "jhub"})
    for name, rules in (("gpucommons-names", 2), ("gpucommons-workloads", 1)):
        (policy,) = of_kind(documents, "ValidatingAdmissionPolicy", name)
        spec = policy["spec"]
        by_account = [one["expression"] for one in spec["validations"] if hub in one["expression"]]
        assert len(by_account) == rules
        assert all(f" {trusted}'" in one for one in by_account)
        exempt = json.dumps(spec["matchConditions"])
        assert hub in exempt
        assert trusted not in exempt


def test_the_cullers_metrics_are_read_by_whom_the_policy_lets_in() -> None:
    def of_the_culler(documents: list[dict[str, Any]]) -> tuple[list[Any], list[str]]:
        policies = of_kind(documents, "NetworkPolicy", "gpucommons-culler")
        arguments = arguments_of(documents, "gpucommons-culler")
        return policies, [one for one in arguments if one.startswith("--metrics")]

    assert of_the_culler(rendered()) == ([], [])
    prometheus = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    documents = rendered({"networkPolicy.metricsFrom": [prometheus]})
    [policy], arguments = of_the_culler(documents)
    assert policy["spec"]["ingress"] == [{"ports": [{"port": "metrics"}], "from": [prometheus]}]
    assert arguments == ["--metrics-port=8003", "--metrics-address=0.0.0.0"]
    [culler] = of_kind(documents, "Deployment", "gpucommons-culler")
    [container] = culler["spec"]["template"]["spec"]["containers"]
    assert container["ports"] == [{"name": "metrics", "containerPort": 8003}]


def test_the_api_is_called_by_whom_else_the_policy_lets_in() -> None:
    airflow = {"namespaceSelector": {"matchLabels": {"name": "airflow"}}}
    documents = rendered({"networkPolicy.apiFrom": [airflow]})
    [policy] = of_kind(documents, "NetworkPolicy", "gpucommons-scheduler")
    assert [
        [port["port"] for port in one["ports"]]
        for one in policy["spec"]["ingress"]
        if airflow in one["from"]
    ] == [["api"]]


def test_keys_and_tokens_outlast_the_release() -> None:
    """What still runs reports with them, and the hub is not restarted for a new release."""
    found = of_kind(rendered({"hub.namespace": "jhub"}), "Secret")
    assert {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in found} == {
        ("gpucommons", "gpucommons-keys"),
        ("gpucommons-agents", "gpucommons-agent"),
        ("gpucommons", "gpucommons-hub-tokens"),
        ("jhub", "gpucommons-hub-tokens"),
    }
    for one in found:
        assert one["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_namespaces_stay_with_what_others_keep_there() -> None:
    for one in of_kind(rendered(), "Namespace"):
        assert one["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep", one["metadata"]


def test_users_pods_reach_no_metadata() -> None:
    documents = rendered(
        {"networkPolicy.users": True}, "--set-json", 'jobs.teamNamespaces={"a":"team-a"}'
    )
    places = {
        (one["metadata"].get("namespace"), one["metadata"]["name"]): one["spec"]
        for one in of_kind(documents, "NetworkPolicy")
    }
    for place in (
        ("gpucommons", "gpucommons-users"),
        ("gpucommons-jobs", "gpucommons-jobs"),
        ("team-a", "gpucommons-jobs"),
    ):
        (rule,) = places[place]["egress"]
        blocked = [one["ipBlock"]["except"] for one in rule["to"]]
        assert blocked == [["169.254.169.254/32"], ["fd00:ec2::254/128"]]


def test_who_calls_the_hub_is_let_in_by_zero_to_jupyterhubs_policy() -> None:
    callers = {
        one["metadata"]["name"]
        for one in of_kind(rendered(), "Deployment")
        if one["spec"]["template"]["metadata"]["labels"].get("hub.jupyter.org/network-access-hub")
        == "true"
    }
    assert callers == {"gpucommons-scheduler", "gpucommons-culler"}


def test_only_the_scheduler_is_let_in_at_the_agents_door() -> None:
    (policy,) = of_kind(rendered(), "NetworkPolicy", "gpucommons-agent")
    ((peer,),) = (rule["from"] for rule in policy["spec"]["ingress"])
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "scheduler"


def secret(documents: list[dict[str, Any]], name: str) -> dict[str, bytes]:
    (found,) = of_kind(documents, "Secret", name)
    return {key: base64.b64decode(value) for key, value in found["data"].items()}


def volume(
    documents: list[dict[str, Any]], part: str, name: str, kind: str = "secret"
) -> dict[str, Any]:
    (spec,) = (spec for found, spec in pod_specs(documents) if found == part)
    (held,) = (one[kind] for one in spec["volumes"] if one["name"] == name)
    found: dict[str, Any] = held
    return found


def test_the_scheduler_believes_the_agents_certificate_and_no_other(tmp_path: Path) -> None:
    documents = rendered()
    ours, theirs = secret(documents, "gpucommons-keys"), secret(documents, "gpucommons-agent")
    for name, content in (("cert", theirs["tls.crt"]), ("key", theirs["tls.key"])):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "token").write_bytes(theirs["token"])
    (tmp_path / "ca").write_bytes(ours["agent-ca"])
    (tmp_path / "other-ca").write_bytes(secret(rendered(), "gpucommons-keys")["agent-ca"])
    settings = HttpApiSettings(
        host="127.0.0.1",
        port=0,
        token_file=tmp_path / "token",
        cert_file=tmp_path / "cert",
        key_file=tmp_path / "key",
    )
    (text,) = (
        one["data"]["kubernetes.yaml"]
        for one in of_kind(documents, "ConfigMap", "gpucommons-scheduler")
    )
    name = KubernetesSettings.model_validate(yaml.safe_load(text)).agent_server_name
    door = HttpApi(settings, Inside(ask=lambda _line: b'{"ok":true,"slices":[]}\n', metrics=bytes))
    try:
        url, token = f"https://127.0.0.1:{door.port}", ours["agent-token"].decode()

        def client(ca: str) -> AgentClient:
            transport = HttpTransport(url=url, token=token, ca_file=tmp_path / ca, server_name=name)
            return AgentClient(transport)

        assert client("ca").slices() == ()
        with pytest.raises(AgentUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            client("other-ca").slices()
    finally:
        door.close()


def test_the_key_that_signed_is_nowhere() -> None:
    documents = rendered()
    assert b"PRIVATE KEY" not in secret(documents, "gpucommons-keys")["agent-ca"]
    with_keys = [
        (one["metadata"]["name"], key)
        for one in of_kind(documents, "Secret")
        for key, value in one["data"].items()
        if b"PRIVATE KEY" in base64.b64decode(value)
    ]
    assert with_keys == [("gpucommons-agent", "tls.key")]


def test_a_certificate_of_ones_own_takes_the_place_of_the_charts() -> None:
    documents = rendered({"agent.tls": {"secret": "door", "caSecret": "door-ca"}})
    assert "agent-ca" not in secret(documents, "gpucommons-keys")
    assert "tls.key" not in secret(documents, "gpucommons-agent")
    assert volume(documents, "gpucommons-agent", "tls")["secretName"] == "door"
    ca = volume(documents, "gpucommons-scheduler", "agent-ca")
    assert (ca["secretName"], ca["items"]) == ("door-ca", [{"key": "ca.crt", "path": "ca.crt"}])
