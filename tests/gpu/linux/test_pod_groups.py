"""Which pod a process is in, as the different ways of naming control groups say it."""

from __future__ import annotations

import pytest

from gpucommons.gpu.linux.pod_groups import pod_of_group

POD = "5f0c3b5e-9a1d-4c22-8b7e-0d7c4f6a1b2c"
OTHER = "11111111-9a1d-4c22-8b7e-0d7c4f6a1b2c"
UNDERSCORED = POD.replace("-", "_")
CONTAINER = "c" * 64


@pytest.mark.parametrize(
    "groups",
    [
        f"0::/kubepods/besteffort/pod{POD}/{CONTAINER}\n",
        f"0::/kubepods/pod{POD}/{CONTAINER}\n",
        f"0::/second-node/kubepods/burstable/pod{POD}/{CONTAINER}\n",
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice/"
        f"cri-containerd-{CONTAINER}.scope\n",
        f"0::/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-{CONTAINER}.scope/inner\n",
        # Seen from a container with a control group namespace of its own.
        f"0::/../../pod{POD}/{CONTAINER}\n",
        f"0::/../kubepods-besteffort-pod{UNDERSCORED}.slice/cri-containerd-{CONTAINER}.scope\n",
        # Version 1: one line for each controller, the first may be elsewhere.
        f"9:name=systemd:/\n8:pids:/kubepods/burstable/pod{POD}/{CONTAINER}\n7:blkio:/\n",
        f"0::/kubepods/besteffort/pod{POD}\n",
    ],
)
def test_a_process_in_a_pod_is_known_by_its_group(groups: str) -> None:
    assert pod_of_group(groups) == POD


@pytest.mark.parametrize(
    "groups",
    [
        "",
        "0::/\n",
        "0::/user.slice/user-1000.slice/session-3.scope\n",
        "0::/kubepods/besteffort/podman-5f0c3b5e\n",
        f"0::/kubepods/besteffort/notapod{POD}/{CONTAINER}\n",
        f"0::/kubepods/pod{POD}x/{CONTAINER}\n",
        "0::/kubepods/burstable/pod0123456789abcdef0123456789abcdef/static\n",
    ],
)
def test_any_other_process_is_in_no_pod(groups: str) -> None:
    assert pod_of_group(groups) is None


def test_a_group_that_a_pod_made_below_its_own_does_not_make_it_another_pod() -> None:
    groups = f"0::/kubepods/besteffort/pod{POD}/{CONTAINER}/kubepods/pod{OTHER}\n"
    assert pod_of_group(groups) == POD
