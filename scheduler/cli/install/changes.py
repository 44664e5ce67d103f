"""Which of a Zero to JupyterHub's values are ours, and why; pure, over plain mappings and lists.

What stood there before and what was added to lists is written down under ``custom``, which the
chart leaves to admins, so that all of it, and only that, can be taken back later, whatever else was
changed meanwhile.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from dataclasses import dataclass
from typing import Any

from gpucommons.scheduler.errors import BadRequest

#: In ``hub.extraConfig``; files there are read in the order of their names.
CONFIG_KEY = "50-gpucommons"
RECORD = ("custom", "gpucommons")
USER_ID = 1000
_ABSENT = "(not set)"
_GPU_RESOURCES = "nvidia.com/gpu"
_CONFIG = """\
from gpucommons.spawner.cluster import configure_cluster
configure_cluster(
    c,
    scheduler_url="http://gpucommons-api.{namespace}.svc:8000",
    pages_url="http://gpucommons-pages.{namespace}.svc:8001",
)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What an admin decides."""

    #: ``NAME:TAG`` of the hub's image with our package in it.
    hub_image: str
    #: The same for notebooks; "" = they stay as they are, without the panel.
    notebook_image: str = ""
    #: Of our own release.
    namespace: str = "gpucommons"


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """A value that is ours."""

    path: tuple[str, ...]
    value: object
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """An entry that is added to a list."""

    path: tuple[str, ...]
    item: Mapping[str, object]
    why: str


def changes(choice: Choice) -> tuple[Value | Item, ...]:
    """All that is set or added, in the order of the chart's own values."""
    return (*_of_the_hub(choice), *_of_notebooks(choice))


def _of_the_hub(choice: Choice) -> Iterator[Value | Item]:
    name, tag = image(choice.hub_image)
    yield Value(path=("hub", "image", "name"), value=name, why="the hub loads our spawner")
    yield Value(path=("hub", "image", "tag"), value=tag, why="the hub loads our spawner")
    tokens = {"secretName": "gpucommons-hub-tokens", "optional": True}
    yield Item(
        path=("hub", "extraVolumes"),
        item={"name": "gpucommons-tokens", "secret": tokens},
        why="tokens of our services; without them the hub starts all the same",
    )
    mount = {"name": "gpucommons-tokens", "mountPath": "/etc/gpucommons/tokens", "readOnly": True}
    yield Item(path=("hub", "extraVolumeMounts"), item=mount, why="where the hub finds them")
    yield Value(
        path=("hub", "extraConfig", CONFIG_KEY),
        value=_CONFIG.format(namespace=choice.namespace),
        why="spawner, services, roles and pages",
    )
    yield Value(
        path=("hub", "networkPolicy", "interNamespaceAccessLabels"),
        value="accept",
        why="scheduler and culler call the hub from their own namespace",
    )
    yield Value(
        path=("cull", "enabled"),
        value=False,
        why="our culler knows what a GPU does; two cullers would stop each other's notebooks",
    )


def _of_notebooks(choice: Choice) -> Iterator[Value | Item]:
    if choice.notebook_image:
        name, tag = image(choice.notebook_image)
        yield Value(path=("singleuser", "image", "name"), value=name, why="the panel in JupyterLab")
        yield Value(path=("singleuser", "image", "tag"), value=tag, why="the panel in JupyterLab")
    yield Value(
        path=("singleuser", "cloudMetadata", "blockWithIptables"),
        value=False,
        why="else each notebook gets a privileged init container, which PodSecurity refuses",
    )
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": choice.namespace}}
    yield Item(
        path=("singleuser", "networkPolicy", "egress"),
        item={
            "to": [{"namespaceSelector": namespace}],
            "ports": [{"port": 8000, "protocol": "TCP"}],
        },
        why="notebooks reach the scheduler",
    )
    yield Item(
        path=("prePuller", "extraTolerations"),
        item={"key": "gpucommons.io/pool", "operator": "Exists", "effect": "NoSchedule"},
        why="images are loaded before the first start on the nodes of a pool, too",
    )


def image(text: str) -> tuple[str, str]:
    """Name and tag.

    Raises
    ------
    BadRequest
        Where one of them is missing.
    """
    name, _, tag = text.rpartition(":")
    if not name or not tag or "/" in tag:
        message = f"{text!r} is no image with a tag: write NAME:TAG, as in REGISTRY/hub:0.1.0."
        raise BadRequest(message)
    return name, tag


# --- looking -----------------------------------------------------------------------------------


def contradiction(values: Mapping[str, Any]) -> str | None:
    """Why these values and ours can't go together; None where they can."""
    spawner = at(values, ("hub", "config", "JupyterHub", "spawner_class"))
    user_id = at(values, ("singleuser", "uid"))
    if at(values, ("rbac", "create")) is False:
        return (
            "rbac.create is false: the hub could make no pods and read no nodes. Give its account the"
            " chart's roles, or leave rbac.create out."
        )
    if spawner is not None:
        return (
            f"hub.config.JupyterHub.spawner_class is {spawner}: GPUs are given by our spawner, which is"
            " a KubeSpawner. Leave spawner_class out; profiles and hooks stay."
        )
    if user_id is not None and user_id != USER_ID:
        return (
            f"singleuser.uid is {user_id}: slices are mounted for user {USER_ID}. Leave singleuser.uid"
            " out, and give homes on volumes to that user."
        )
    if "gpucommons" in (at(values, ("hub", "services")) or ()):
        return "hub.services.gpucommons is set: our configuration makes that service. Leave it out."
    return None


def remarks(values: Mapping[str, Any], choice: Choice) -> Iterator[str]:
    """What goes on working, or does not, and is not changed here."""
    if not choice.notebook_image:
        yield (
            "The notebooks' image stays as it is: without our package in it JupyterLab has no panel"
            " (--notebook-image)."
        )
    if _GPU_RESOURCES in str(values.get("singleuser", "")):
        yield (
            f"Profiles that ask for {_GPU_RESOURCES} get none by that any more: the choice of a GPU"
            " stands below the profiles."
        )
    if at(values, ("singleuser", "cpu", "guarantee")) is None:
        yield (
            "singleuser.cpu.guarantee is not set: notebooks ask for no processor, and get what the jobs"
            " beside them leave. Set what one needs to start and to answer, as 0.5."
        )
    purpose = ("scheduling", "userPods", "nodeAffinity", "matchNodePurpose")
    if at(values, purpose) == "require":
        yield "matchNodePurpose is require: label GPU nodes hub.jupyter.org/node-purpose=user."
    if at(values, ("singleuser", "networkPolicy", "enabled")) is False:
        yield (
            "singleuser.networkPolicy.enabled is false: set networkPolicy.users of our own chart, so"
            " that notebooks do not reach the cloud's metadata."
        )


# --- changing ----------------------------------------------------------------------------------


def apply(values: MutableMapping[str, Any], choice: Choice) -> list[Value | Item]:
    """Change the values in place; returns what was not so yet.

    Raises
    ------
    BadRequest
        Where the values are of another shape than the chart's, or contradict ours.
    """
    found = contradiction(values)
    if found is not None:
        raise BadRequest(found)
    done: list[Value | Item] = []
    wanted = changes(choice)
    before: dict[str, object] = dict(at(values, (*RECORD, "before")) or {})
    added = _without_outdated(values, wanted)
    for change in wanted:
        *parents, name = change.path
        place = _made(values, parents)
        if isinstance(change, Value):
            if place.get(name, _ABSENT) == change.value:
                continue
            before.setdefault(".".join(change.path), place.get(name, _ABSENT))
            place[name] = change.value
        else:
            listed = _listed(place, change.path)
            if change.item in listed:
                continue
            listed.append(copy.deepcopy(change.item))
            # A copy of its own: one object at two places is written as an alias.
            added.setdefault(".".join(change.path), []).append(copy.deepcopy(change.item))
        done.append(change)
    if done or at(values, RECORD) is not None:
        _made(values, RECORD)["before"] = before
        _made(values, RECORD)["added"] = added
    return done


def _without_outdated(
    values: MutableMapping[str, Any], wanted: Sequence[Value | Item]
) -> dict[str, list[object]]:
    """What we have added to lists; what is not wanted any more is taken out of them."""
    ours = [(".".join(one.path), one.item) for one in wanted if isinstance(one, Item)]
    kept: dict[str, list[object]] = {}
    for dotted, item in _added(values):
        if (dotted, item) in ours:
            kept.setdefault(dotted, []).append(item)
        else:
            _take_out(values, dotted, item)
    return kept


def _added(values: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    record = at(values, (*RECORD, "added")) or {}
    return ((dotted, item) for dotted, items in dict(record).items() for item in list(items))


def _take_out(values: Mapping[str, Any], dotted: str, item: object) -> None:
    listed = at(values, dotted.split("."))
    if isinstance(listed, MutableSequence) and item in listed:
        listed.remove(item)


def undo(values: MutableMapping[str, Any]) -> bool:
    """Take everything back; False where nothing of ours is there."""
    record = at(values, RECORD)
    if not isinstance(record, Mapping):
        return False
    for dotted, item in _added(values):
        _take_out(values, dotted, item)
        _pruned(values, dotted.split("."))
    for dotted, value in dict(record.get("before") or {}).items():
        *parents, name = path = tuple(dotted.split("."))
        if value == _ABSENT:
            _made(values, parents).pop(name, None)
        else:
            _made(values, parents)[name] = value
        _pruned(values, path)
    values[RECORD[0]].pop(RECORD[1])
    _pruned(values, RECORD)
    return True


def at(values: object, path: Sequence[str]) -> Any:
    """What stands at a path; None where nothing does."""
    for name in path:
        if not isinstance(values, Mapping) or name not in values:
            return None
        values = values[name]
    return values


def _made(values: MutableMapping[str, Any], path: Sequence[str]) -> MutableMapping[str, Any]:
    for number, name in enumerate(path):
        if values.get(name) is None:
            values[name] = {}
        values = values[name]
        if not isinstance(values, MutableMapping):
            message = f"{'.'.join(path[: number + 1])} must be a mapping, as the chart has it."
            raise BadRequest(message)
    return values


def _listed(place: MutableMapping[str, Any], path: Sequence[str]) -> MutableSequence[Any]:
    if place.get(path[-1]) is None:
        place[path[-1]] = []
    found = place[path[-1]]
    if isinstance(found, MutableSequence):
        return found
    message = f"{'.'.join(path)} must be a list, as the chart has it."
    raise BadRequest(message)


def _pruned(values: MutableMapping[str, Any], path: Sequence[str]) -> None:
    """Without what is empty on the way to ``path``: the chart's own defaults are the same."""
    for depth in range(len(path), 0, -1):
        place = at(values, path[: depth - 1])
        if not isinstance(place, MutableMapping):
            continue
        if path[depth - 1] in place and place[path[depth - 1]] in ({}, []):
            del place[path[depth - 1]]
