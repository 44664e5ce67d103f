"""Profiles and our options live side by side, and one start leaves nothing to the next."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from notebook_pods import held
from tornado.web import HTTPError

from gpucommons.scheduler.client import calls
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.models import LeaseView
from gpucommons.spawner.form.form_mixin import apply_user_options
from gpucommons.spawner.kube import GpuKubeSpawner
from gpucommons.spawner.pods.pod import fitted, notebook_of

PROFILES = [
    {
        "display_name": "Big",
        "slug": "big",
        "kubespawner_override": {
            "extra_resource_limits": {"nvidia.com/gpu": "1"},
            "environment": {"NVIDIA_VISIBLE_DEVICES": "all", "SIZE": "big"},
            "extra_labels": {"gpucommons.io/slice": "of-a-profile"},
        },
        "profile_options": {
            "image": {
                "display_name": "Image",
                "choices": {
                    "old": {"display_name": "Old", "kubespawner_override": {"image": "old:1"}},
                    "new": {"display_name": "New", "kubespawner_override": {"image": "new:1"}},
                },
            }
        },
    },
    {"display_name": "Small", "slug": "small", "default": True},
]


@pytest.fixture
async def spawner(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GpuKubeSpawner]:
    # Nothing here talks to a cluster, so none has to be found.
    monkeypatch.setattr("kubespawner.spawner.load_config", lambda **_: None)
    made = GpuKubeSpawner(_mock=True, profile_list=PROFILES, environments={"Torch": "torch:1"})
    made.user = SimpleNamespace(name="alice", id=1, url="/user/alice", admin=False)
    yield made
    await made.api.api_client.close()


async def pod_of(spawner: GpuKubeSpawner, options: dict[str, object]) -> dict[str, Any]:
    spawner.user_options = options
    await spawner.load_user_options()
    made = spawner.api.api_client.sanitize_for_serialization(await spawner.get_pod_manifest())
    return fitted(made, spawner._needs(made))


async def test_a_gpu_of_one_profile_never_reaches_the_next_start(spawner: GpuKubeSpawner) -> None:
    for profile in ("big", "small"):
        pod = await pod_of(spawner, {"profile": profile})
        notebook = notebook_of(pod)
        assert "nvidia.com/gpu" not in notebook["resources"]["limits"]
        env = {one["name"]: one.get("value") for one in notebook["env"]}
        assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
        assert "gpucommons.io/slice" not in pod["metadata"]["labels"]


async def test_the_next_start_begins_with_what_the_admin_set(spawner: GpuKubeSpawner) -> None:
    await pod_of(spawner, {"profile": "big", "image": "new"})
    assert spawner.image == "new:1"
    spawner.clear_state()
    pod = await pod_of(spawner, {"profile": "small"})
    assert not [one for one in notebook_of(pod)["env"] if one["name"] == "SIZE"]
    assert spawner.image != "new:1"
    assert spawner.extra_resource_limits == {}


async def test_a_profile_and_a_gpu_are_chosen_in_one_form(spawner: GpuKubeSpawner) -> None:
    found = spawner.options_from_form(
        {
            "profile": ["big"],
            "profile-option-big--image": ["new"],
            "offer": ["vision/gpu/500"],
        }
    )
    assert found == {
        "profile": "big",
        "image": "new",
        "milli_gpu": 500,
        "team": "vision",
        "pool": "gpu",
    }
    spawner.user_options = found
    assert spawner.notebook_options().milli_gpu == 500


async def test_a_profile_that_went_through_the_waiting_line_is_that_of_the_form(
    spawner: GpuKubeSpawner,
) -> None:
    form = {"profile": ["big"], "profile-option-big--image": ["new"], "unknown": ["x"]}
    of_the_start = {"milli_gpu": 500, "team": "vision", "pool": "gpu"}
    spawner.orm_spawner = SimpleNamespace(user_options=None, name="", server=None)
    spawner.user_options = {**form, **of_the_start}
    await apply_user_options(spawner, spawner.user_options)
    assert spawner.user_options == {"profile": "big", "image": "new", **of_the_start}
    assert spawner.orm_spawner.user_options == spawner.user_options
    await pod_of(spawner, spawner.user_options)
    assert spawner.image == "new:1"


async def listed_later(_spawner: GpuKubeSpawner) -> list[dict[str, Any]]:
    return PROFILES


@pytest.mark.parametrize(
    "profile_list",
    [PROFILES, dict(enumerate(PROFILES)), lambda _: PROFILES, listed_later],
    ids=["list", "dict", "function", "coroutine"],
)
@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"profile": "nope"}, "no profile 'nope'. Possible are: big, small"),
        ({"profile": ["nope"]}, "no profile 'nope'"),
        ({"profile": [["big"]]}, "no profile"),
        ({"profile": {"a": 1}}, "no profile"),
        ({"profile": []}, "'profile' is an empty list"),
        ({"profile": ["big"], "profile-option-big--image": []}, "is an empty list"),
        ({"profile": "big", "image": "mine"}, "no image 'mine'. Possible are: old, new"),
        ({"profile": "big", "image": ["new"]}, "no image"),
        ({"profile": "big", "unknown": "x" * 10_000}, "8 KiB at most"),
    ],
)
async def test_a_wrong_profile_is_refused_before_anything_is_taken(
    spawner: GpuKubeSpawner, profile_list: Any, chosen: dict[str, object], said: str
) -> None:
    spawner.profile_list = profile_list
    spawner.orm_spawner = None
    spawner.user_options = {"milli_gpu": 500, "team": "vision", "pool": "gpu", **chosen}
    with pytest.raises(HTTPError, match=said) as refused:
        await apply_user_options(spawner, spawner.user_options)
    assert refused.value.status_code == 400


@pytest.mark.parametrize("chosen", [{}, {"profile": ""}, {"profile": "big", "image": ""}])
async def test_who_chooses_nothing_gets_the_defaults(
    spawner: GpuKubeSpawner, chosen: dict[str, object]
) -> None:
    spawner.user_options = chosen
    await apply_user_options(spawner, chosen)
    await spawner.load_user_options()
    assert spawner.image == ("old:1" if chosen.get("profile") else GpuKubeSpawner.image.default())


async def test_what_kubespawner_cannot_apply_is_refused_with_a_sentence(
    spawner: GpuKubeSpawner,
) -> None:
    spawner._starting = True
    for chosen in ({"profile": "nope"}, {"profile": "big", "image": "mine"}, {"image": ["new"]}):
        spawner.profile_list = [{**PROFILES[0], "default": True}]
        spawner.user_options = chosen
        with pytest.raises(HTTPError, match="cannot be started with these choices") as refused:
            await spawner.load_user_options()
        assert refused.value.status_code == 400


async def test_the_form_shows_profiles_and_gpus(spawner: GpuKubeSpawner) -> None:
    page = await spawner.get_options_form()
    assert 'id="kubespawner-profiles-list"' in page
    assert 'value="cpu"' in page
    spawner.profile_list = []
    assert "kubespawner-profiles-list" not in await spawner.get_options_form()


async def test_an_environment_is_an_image(spawner: GpuKubeSpawner) -> None:
    pod = await pod_of(spawner, {"environment": "Torch"})
    assert notebook_of(pod)["image"] == "torch:1"
    spawner.clear_state()
    assert notebook_of(await pod_of(spawner, {}))["image"] != "torch:1"


async def test_without_profiles_an_unknown_option_is_refused(spawner: GpuKubeSpawner) -> None:
    spawner.profile_list = []
    spawner.user_options = {"mili_gpu": 500}
    with pytest.raises(HTTPError) as refused:
        spawner.notebook_options()
    assert refused.value.status_code == 400


def asked_again(spawner: GpuKubeSpawner, *answers: LeaseView) -> list[str]:
    """Give the spawner a slice on a slot without a device, and these answers to what follows."""
    asked: list[str] = []

    async def send(call: calls.Call[Any]) -> LeaseView:
        asked.append(call.path)
        return answers[min(len(asked), len(answers)) - 1]

    spawner._lease = held(visible_devices=[])
    spawner._send = send
    return asked


async def test_a_slot_whose_device_is_being_reserved_is_waited_for(
    spawner: GpuKubeSpawner,
) -> None:
    unbound, bound = held(visible_devices=[]), held(visible_devices=["GPU-a"])
    asked = asked_again(spawner, unbound, bound)
    assert spawner.held_slice is not None
    made = await spawner.prepare_slice(spawner.held_slice)
    assert made is not None
    assert made.env["NVIDIA_VISIBLE_DEVICES"] == "GPU-a"
    assert asked == [f"/v1/leases/{bound.id}"] * 2
    assert spawner.held_slice.visible_devices == ["GPU-a"]


async def test_a_slot_that_gets_no_device_in_time_starts_nothing(spawner: GpuKubeSpawner) -> None:
    asked_again(spawner, held(visible_devices=[]))
    spawner.slot_patience_s = 0
    assert spawner.held_slice is not None
    with pytest.raises(HTTPError) as refused:
        await spawner.prepare_slice(spawner.held_slice)
    assert refused.value.status_code == 503


async def test_a_scheduler_that_is_away_for_a_while_is_waited_for_too(
    spawner: GpuKubeSpawner,
) -> None:
    asked_again(spawner, held(visible_devices=["GPU-a"]))
    answer, away = spawner._send, [Unavailable("a new leader begins")]

    async def send(call: calls.Call[Any]) -> LeaseView:
        if away:
            raise away.pop()
        found: LeaseView = await answer(call)
        return found

    spawner._send = send
    assert spawner.held_slice is not None
    assert await spawner.prepare_slice(spawner.held_slice) is not None


async def test_a_grant_that_ends_while_its_device_is_reserved_starts_nothing(
    spawner: GpuKubeSpawner,
) -> None:
    over = held().model_copy(update={"slice": None, "ended_text": "its node was lost"})
    asked_again(spawner, over)
    assert spawner.held_slice is not None
    with pytest.raises(HTTPError, match="its node was lost") as refused:
        await spawner.prepare_slice(spawner.held_slice)
    assert refused.value.status_code == 409


async def test_a_cpu_notebook_is_described_by_its_limits(spawner: GpuKubeSpawner) -> None:
    spawner.cpu_limit, spawner.mem_limit = 2.0, "4G"
    assert spawner.own_cpu_text() == "2 cores, 4 GiB"
