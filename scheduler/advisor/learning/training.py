"""One training in one layout as it is kept beside its plan: numbers, from which its formula follows again.

A formula's seconds alone would be out of date with the next release or the next probe.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from gpucommons.scheduler.advisor.layout import Layout
from gpucommons.scheduler.advisor.network import Network, Traced, Transformer
from gpucommons.scheduler.advisor.recipe import Adapters, Recipe
from gpucommons.scheduler.advisor.scaling import Seen

T = TypeVar("T")
_NETWORKS: dict[str, type[Transformer | Traced]] = {"transformer": Transformer, "traced": Traced}
#: Longer texts are none of ours.
_LONGEST = 4096
_MOST_POINTS = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """What was trained, how, and how it was laid out."""

    network: Transformer | Traced
    recipe: Recipe
    layout: Layout
    #: Whose own arguments the script takes (:mod:`..choice.script_arguments`); "" for nobody's.
    framework: str = ""


def written(network: Network, recipe: Recipe, layout: Layout, framework: str = "") -> str:
    """As text; "" of a network that no formula knows."""
    kind = next((name for name, one in _NETWORKS.items() if isinstance(network, one)), None)
    if kind is None:
        return ""
    parts = {"network": network, "recipe": recipe, "layout": layout}
    told = {name: _changed(part) for name, part in parts.items()}
    named = {"framework": framework} if framework else {}
    return json.dumps({"kind": kind, **told, **named}, separators=(",", ":"))


def read(text: str) -> Training | None:
    """None where it was not told, or in words of another release."""
    if not 0 < len(text) <= _LONGEST:
        return None
    try:
        told = json.loads(text)
        return Training(
            network=_made(_NETWORKS[told["kind"]], told["network"]),
            recipe=_made(Recipe, told["recipe"]),
            layout=_made(Layout, told["layout"]),
            framework=str(told.get("framework", "")),
        )
    except (KeyError, TypeError, ValueError):
        return None


def written_points(seen: Sequence[Seen]) -> str:
    """What was known of a training that no formula knows: its points."""
    rows = [[one.gpus, one.nodes, one.local_batch, one.step_s] for one in seen[-_MOST_POINTS:]]
    return json.dumps({"kind": "unknown", "points": rows}, separators=(",", ":"))


def read_points(text: str) -> list[Seen]:
    """None where there were none, or in words of another release."""
    if not 0 < len(text) <= _LONGEST:
        return []
    try:
        rows = json.loads(text)["points"]
        points = [
            Seen(gpus=int(gpus), nodes=int(nodes), local_batch=float(batch), step_s=float(seconds))
            for gpus, nodes, batch, seconds in rows
        ]
    except (KeyError, TypeError, ValueError):
        return []
    return [one for one in points if min(one.gpus, one.nodes, one.local_batch, one.step_s) > 0]


def _changed(part: Any) -> dict[str, Any]:
    """Its fields, without those that are as they are left out."""
    named = {one.name: (getattr(part, one.name), one.default) for one in fields(part)}
    return {name: value for name, (value, usual) in named.items() if value != usual}


def _made(kind: type[T], told: dict[str, Any]) -> T:
    given = dict(told)
    if kind is Recipe and "adapters" in given:
        given["adapters"] = Adapters(given["adapters"])
    return kind(**given)
