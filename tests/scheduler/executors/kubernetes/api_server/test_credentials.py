"""In a pod we are its service account; with a kubeconfig, whom that says."""

from pathlib import Path

import pytest
import yaml
from kubernetes.config import incluster_config

from gpucommons.scheduler.executors.kubernetes.api_server.credentials import connect


def sent(connection: object) -> dict[str, str]:
    return dict(connection._credentials.headers())  # type: ignore[attr-defined] # what is sent


def test_a_pod_says_the_token_of_its_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("secret")
    (tmp_path / "ca.crt").write_text("certificate")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert sent(connect())["Authorization"].lower() == "bearer secret"


def test_a_kubeconfig_with_a_token_is_followed(tmp_path: Path) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    assert sent(connect(kubeconfig=str(path)))["Authorization"].lower() == "bearer secret"
