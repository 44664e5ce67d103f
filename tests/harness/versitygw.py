"""A real S3 server over a folder, where the harness has built one."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpucommons.scheduler.file_storage.bucket import BucketStorage, open_bucket
from tests.harness.free_ports import free_port
from tests.kubernetes.fixtures import need
from tests.kubernetes.toolchain import toolchain


@dataclass(frozen=True, kw_only=True, slots=True)
class S3Server:
    """Where it answers, and what opens it."""

    url: str
    access_key: str = "gpucommons-test"
    secret_key: str = field(default="s3-top-secret-of-the-test", repr=False)

    def environ(self) -> dict[str, str]:
        """What a scheduler's environment says of it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
        }


def binary() -> str:
    """The server's program; skips, or fails where a Kubernetes is required, without it."""
    need("versitygw")
    return str(toolchain.find("versitygw"))


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """One with a bucket ``jobs``."""
    program = binary()
    (folder / "jobs").mkdir(parents=True)
    port = free_port()
    server = S3Server(url=f"http://127.0.0.1:{port}")
    secrets = {"ROOT_ACCESS_KEY": server.access_key, "ROOT_SECRET_KEY": server.secret_key}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "--port", f"127.0.0.1:{port}", "posix", str(folder)],
            env={**os.environ, **secrets},
            stdout=log,
            stderr=log,
        )
    try:
        _wait_for(port, process)
        yield server
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    give_up_s = time.monotonic() + 30
    while time.monotonic() < give_up_s and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)  # it offers no event
    pytest.fail("versitygw does not answer")


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One server for the session."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3_storage(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> BucketStorage:
    """A folder of its own in the server's bucket."""
    for name, value in s3.environ().items():
        monkeypatch.setenv(name, value)
    return open_bucket(f"s3://jobs/{uuid.uuid4()}", s3.environ())
