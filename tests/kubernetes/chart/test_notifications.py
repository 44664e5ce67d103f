"""How users are told, as the chart's values say it: what the scheduler reads, and where its login is."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

import pytest
import yaml

from gpucommons.scheduler.notifications.settings import NotificationSettings
from gpucommons.scheduler.wiring import options
from tests.kubernetes.chart.chart import CHART, HelmRefused, of_kind, pod_specs, rendered
from tests.kubernetes.fixtures import need

EXAMPLE = CHART / "ci/eks-values.yaml"
MAIL = {"host": "smtp.example.org", "sender": "gpu@example.org", "domains": ["example.org"]}
LOGIN = "/etc/gpucommons/mail/login"


@pytest.fixture(autouse=True)
def _helm() -> None:
    need("helm")


def scheduler(documents: list[dict[str, Any]]) -> dict[str, Any]:
    (spec,) = (spec for name, spec in pod_specs(documents) if name == "gpucommons-scheduler")
    return spec


def test_the_scheduler_reads_what_the_values_say() -> None:
    documents = rendered(EXAMPLE)
    spec = scheduler(documents)
    given = options.parser().parse_args(spec["containers"][0]["args"])
    assert given.notifications is not None
    (mount,) = (
        one
        for one in spec["containers"][0]["volumeMounts"]
        if given.notifications.is_relative_to(one["mountPath"])
    )
    (volume,) = (one for one in spec["volumes"] if one["name"] == mount["name"])
    (written,) = of_kind(documents, "ConfigMap", volume["configMap"]["name"])
    found = NotificationSettings.model_validate(
        yaml.safe_load(written["data"][given.notifications.name])
    )
    assert found.mail is not None
    assert found.webhooks is not None
    assert (found.mail.port, found.mail.tls) == (587, "starttls")
    assert found.mail.address == "{username}@example.org"
    assert found.webhooks.allow == (ipaddress.ip_network("10.1.2.0/24"),)
    assert not found.webhooks.http


def test_the_login_is_where_the_scheduler_looks_and_nobody_else_may_read_it() -> None:
    spec = scheduler(rendered(EXAMPLE))
    (volume,) = (one for one in spec["volumes"] if one["name"] == "mail")
    assert volume["secret"]["secretName"] == "gpucommons-mail"
    assert volume["secret"]["defaultMode"] & 0o007 == 0
    (mount,) = (one for one in spec["containers"][0]["volumeMounts"] if one["name"] == "mail")
    (item,) = volume["secret"]["items"]
    assert f"{mount['mountPath']}/{item['path']}" == LOGIN
    assert mount["readOnly"]


def test_without_settings_nobody_is_told_and_nothing_is_mounted() -> None:
    documents = rendered()
    spec = scheduler(documents)
    assert options.parser().parse_args(spec["containers"][0]["args"]).notifications is None
    assert "mail" not in {one["name"] for one in spec["volumes"]}
    (written,) = of_kind(documents, "ConfigMap", "gpucommons-scheduler")
    assert "notifications.yaml" not in written["data"]


def test_other_settings_make_a_new_pod() -> None:
    def configured(values: dict[str, Any]) -> str:
        (made,) = of_kind(rendered(values), "Deployment", "gpucommons-scheduler")
        return str(made["spec"]["template"]["metadata"]["annotations"]["gpucommons.io/config"])

    settings = {"notifications.settings": {"mail": MAIL}}
    assert configured({}) != configured(settings) == configured(settings)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"notifications.settings": {"smtp": MAIL}}, "/notifications/settings"),
        ({"notifications.settings": {"mail": MAIL | {"login_file": LOGIN}}}, "needs both"),
        (
            {"notifications.settings": {"mail": MAIL}, "notifications.loginSecret": "mail"},
            "needs both",
        ),
    ],
)
def test_values_that_tell_nobody_are_refused_in_words(values: dict[str, Any], says: str) -> None:
    with pytest.raises(HelmRefused, match=re.escape(says)):
        rendered(values)
