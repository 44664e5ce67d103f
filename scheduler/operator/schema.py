"""From the API's models to the structural schema that a CRD holds, so that the two cannot drift.

A structural schema has no references, no unions with null, no patterns of keys and no defaults:
references are put in, a field that may be null may be left out instead, and patterns of keys
become CEL rules. Defaults stay out on purpose: they depend on the team's policy at submit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

#: What a structural schema takes over as it is.
_KEPT = (
    "type", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems",
    "maxItems", "minProperties", "maxProperties", "required",
)  # fmt: skip
#: Keys of maps without a bound would make rules about them too costly to admit.
_MOST_KEYS = 256


def cel_text(text: str) -> str:
    """A text as a CEL literal."""
    return json.dumps(text)


def structural(model: type[BaseModel]) -> Schema:
    """The schema of a model as a CRD may hold it."""
    whole = model.model_json_schema()
    return _converted(whole, whole.get("$defs", {}))


def _converted(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    if "$ref" in node:
        return _converted(definitions[node["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in node:
        (only,) = (one for one in node["anyOf"] if one.get("type") != "null")
        return _converted(only, definitions)
    found: Schema = {key: node[key] for key in _KEPT if key in node}
    if node.get("type") == "object" and "description" in node:
        found["description"] = node["description"]
    if "properties" in node:
        found["properties"] = {
            name: _converted(one, definitions) for name, one in node["properties"].items()
        }
    if "items" in node:
        found["items"] = _converted(node["items"], definitions)
    if found.get("type") == "integer":
        found["format"] = "int64"
    return found | _map_of(node, definitions)


def _map_of(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    """Values of a map, and the rule about its keys."""
    patterns: Mapping[str, Any] = node.get("patternProperties", {})
    if not patterns:
        return {}
    ((pattern, values),) = patterns.items()
    return {
        "additionalProperties": _converted(values, definitions),
        "maxProperties": node.get("maxProperties", _MOST_KEYS),
        "x-kubernetes-validations": [
            {
                "rule": f"self.all(key, key.matches({cel_text(pattern)}))",
                "message": f"Every name must match {pattern}",
            }
        ],
    }
