"""Whatever goes wrong with object storage, its credentials are nowhere to be read."""

from __future__ import annotations

import json
import logging
import socket

import pytest
from launches import a_launch
from versitygw import S3Server

from gpucommons.scheduler.errors import BadRequest, SchedulerError, Unavailable
from gpucommons.scheduler.executors.kubernetes.manifests.pod_files import PodPlace, plan_pod
from gpucommons.scheduler.file_storage.bucket import BucketStorage, open_bucket
from gpucommons.scheduler.file_storage.opening import open_storage

SECRET = "s3cr3t-of-the-bucket"


def a_bucket(monkeypatch: pytest.MonkeyPatch, endpoint: str, secret: str = SECRET) -> BucketStorage:
    environ = S3Server(url=endpoint, secret_key=secret).environ()
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return open_bucket("s3://jobs/prefix", environ)


def everything_said(error: SchedulerError, caplog: pytest.LogCaptureFixture) -> str:
    causes = f"{error!r} {error} {error.__cause__!r}"
    return causes + caplog.text


def test_a_server_that_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        storage = a_bucket(monkeypatch, f"http://127.0.0.1:{taken.getsockname()[1]}")
    with pytest.raises(Unavailable, match="does not answer") as refused:
        storage.read("jobs/1/latest")
    said = everything_said(refused.value, caplog) + repr(storage)
    assert SECRET not in said
    assert "Signature" not in said
    assert "\n" not in str(refused.value)


def test_a_wrong_key_at_a_real_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, s3: S3Server
) -> None:
    caplog.set_level(logging.DEBUG)
    storage = a_bucket(monkeypatch, s3.url)
    with pytest.raises(Unavailable) as refused:
        storage.read("jobs/1/latest")
    assert SECRET not in everything_said(refused.value, caplog)


def test_an_address_with_a_password_is_shown_without_it(caplog: pytest.LogCaptureFixture) -> None:
    for address in (
        f"s3://user:{SECRET}@jobs/x",
        f"az://jobs/x?sig={SECRET}",
        f"ftp://{SECRET}@h/x",
    ):
        try:
            said = repr(open_storage(address))
        except BadRequest as error:
            said = everything_said(error, caplog)
        assert SECRET not in said


@pytest.mark.parametrize(
    "address", ["", "folder:relative", "ftp://x/y", "/just/a/path", "s4://b/x"]
)
def test_what_is_no_storage_is_refused_with_what_is(address: str) -> None:
    with pytest.raises(BadRequest, match="folder:/"):
        open_storage(address)


def test_a_pods_plan_names_no_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    a_bucket(monkeypatch, "http://127.0.0.1:1")
    for mode in ("links", "volume", "none"):
        plan = plan_pod(a_launch(), PodPlace(image="ours", storage=mode, claim="jobs"))
        text = json.dumps([plan.init_container, plan.volumes, plan.volume_mounts, plan.env])
        assert SECRET not in text
        assert "AWS" not in text
