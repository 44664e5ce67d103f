"""The driver's library comes into a container exactly where it names devices."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.kubernetes.node.gpu_runtime import write_wrapper


@pytest.fixture
def created(tmp_path: Path):
    """Create a container with this environment; its configuration and what runc was told."""
    runc = tmp_path / "real-runc"
    runc.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/told\n')
    runc.chmod(0o755)
    wrapper = write_wrapper(
        tmp_path / "runc", runc=runc, library=Path("/lib/driver"), state=Path("/state")
    )

    def create(*environment: str) -> dict[str, object]:
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"process": {"env": list(environment)}, "mounts": []}))
        subprocess.run([wrapper, "--log", "x", "create", "--bundle", tmp_path, "name"], check=True)
        assert (tmp_path / "told").read_text() == f"--log x create --bundle {tmp_path} name\n"
        return json.loads(config.read_text())

    return create


@pytest.mark.parametrize("devices", ["all", "GPU-1,GPU-2"])
def test_a_container_that_names_devices_finds_the_driver(created, devices: str) -> None:
    config = created("A=b=c", f"NVIDIA_VISIBLE_DEVICES={devices}")

    assert [mount["source"] for mount in config["mounts"]] == ["/lib/driver", "/state"]
    assert "FAKE_NVML_STATE=/run/fake-nvml-state" in config["process"]["env"]


@pytest.mark.parametrize("environment", [(), ("NVIDIA_VISIBLE_DEVICES=void",)])
def test_one_without_devices_finds_none(created, environment: tuple[str, ...]) -> None:
    assert created(*environment)["mounts"] == []
