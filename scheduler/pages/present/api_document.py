"""The API's OpenAPI document as a page shows it: routes by group, fields, answers, a call with curl. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

Document = Mapping[str, Any]

#: Tags of the document, in the order in which people look for them.
_GROUPS = {
    "jobs": "Jobs",
    "profiles": "Profiles",
    "schedules": "Schedules",
    "pipelines": "Pipelines",
    "sweeps": "Sweeps and maps",
    "notebooks": "Notebooks and tickets",
    "notifications": "What users are told",
    "cluster": "Teams, pools, nodes, settings",
    "history": "Events, usage, metrics",
    "attempt": "From inside a running job",
    "health": "Health",
}
_METHODS = ("get", "post", "put", "patch", "delete")
_WHERE = {"path": "in the path", "query": "in the query", "header": "a header"}
#: Of a schema's values so many are listed.
_MOST_VALUES = 12
_MOST_DEPTH = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """What a value is; ``schema`` where it is described in a table of its own."""

    text: str
    schema: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """A parameter, or a field of a body or an answer."""

    name: str
    kind: Kind
    required: bool
    text: str
    #: Of a parameter.
    where: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One status that a call may end with."""

    status: int
    text: str
    kind: Kind | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One route."""

    anchor: str
    method: str
    path: str
    text: str
    needs_token: bool
    parameters: tuple[Field, ...]
    body: Kind | None
    answers: tuple[Answer, ...]
    #: The statuses of refusals, which all have the same body.
    errors: tuple[int, ...]
    example: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Routes on one subject."""

    anchor: str
    title: str
    operations: tuple[Operation, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Schema:
    """A body or an answer, or a part of one."""

    name: str
    text: str
    fields: tuple[Field, ...]
    #: Of one that has no fields.
    kind: Kind | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiPage:
    """All of it."""

    groups: tuple[Group, ...]
    schemas: tuple[Schema, ...]
    #: Every status of a refusal, with its sentence.
    errors: tuple[Answer, ...]


def api_page(document: Document) -> ApiPage:
    """Arrange the document."""
    by_tag: dict[str, list[Operation]] = {}
    errors: dict[int, Answer] = {}
    for path, methods in document.get("paths", {}).items():
        for method in _METHODS:
            if method in methods:
                found = methods[method]
                tag = (found.get("tags") or ["other"])[0]
                by_tag.setdefault(tag, []).append(_operation(document, method, path, found))
                errors |= {one.status: one for one in _answers(found) if _is_error(one.status)}
    known = [tag for tag in _GROUPS if tag in by_tag]
    others = [tag for tag in by_tag if tag not in _GROUPS]
    return ApiPage(
        groups=tuple(
            Group(anchor=tag, title=_GROUPS.get(tag, tag), operations=tuple(by_tag[tag]))
            for tag in (*known, *others)
        ),
        schemas=tuple(_schema(name, one) for name, one in sorted(_schemas(document).items())),
        errors=tuple(errors[status] for status in sorted(errors)),
    )


def _schemas(document: Document) -> Mapping[str, Any]:
    found: Mapping[str, Any] = document.get("components", {}).get("schemas", {})
    return found


def _is_error(status: int) -> bool:
    return status >= HTTPStatus.BAD_REQUEST


def _operation(document: Document, method: str, path: str, found: Document) -> Operation:
    answers = _answers(found)
    body = _body(found)
    return Operation(
        anchor=f"{method}-{found.get('operationId', path)}",
        method=method.upper(),
        path=path,
        text=_prose(found.get("description") or found.get("summary") or ""),
        needs_token=bool(found.get("security")),
        parameters=tuple(_parameter(one) for one in found.get("parameters", ())),
        body=None if body is None else kind_of(body),
        answers=tuple(one for one in answers if not _is_error(one.status)),
        errors=tuple(one.status for one in answers if _is_error(one.status)),
        example=_example(document, method, path, found),
    )


def _parameter(found: Document) -> Field:
    return Field(
        name=found["name"],
        kind=kind_of(found.get("schema", {})),
        required=bool(found.get("required")),
        text=_prose(found.get("description", "")),
        where=_WHERE.get(str(found.get("in")), ""),
    )


def _content(found: Document) -> tuple[str, Document] | None:
    """Media type and schema of a body or an answer."""
    for media_type, one in found.get("content", {}).items():
        return media_type, one.get("schema", {})
    return None


def _body(found: Document) -> Document | None:
    content = _content(found.get("requestBody", {}))
    return None if content is None else content[1]


def _answers(found: Document) -> list[Answer]:
    answers = []
    for status, one in found.get("responses", {}).items():
        if not status.isdecimal():
            continue
        content = _content(one)
        described = _prose(one.get("description", ""))
        text = HTTPStatus(int(status)).phrase if described == "Successful Response" else described
        kind = None
        if content is not None:
            media_type, schema = content
            kind = kind_of(schema) if "json" in media_type else Kind(text=media_type)
        answers.append(Answer(status=int(status), text=text, kind=kind))
    return sorted(answers, key=lambda one: one.status)


def _schema(name: str, found: Document) -> Schema:
    required = set(found.get("required", ()))
    fields = tuple(
        Field(
            name=field,
            kind=kind_of(one),
            required=field in required,
            text=_prose(one.get("description", "")),
        )
        for field, one in found.get("properties", {}).items()
    )
    return Schema(
        name=name,
        text=_prose(found.get("description", "")),
        fields=fields,
        kind=None if fields else kind_of(found),
    )


def _prose(text: str) -> str:
    """Docstrings mark code up; a page in plain words does not."""
    return " ".join(text.replace("``", "").replace("*", "").split())


def kind_of(schema: Document, depth: int = 0) -> Kind:
    """What a value is, in words."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        return Kind(text=name, schema=name)
    either = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if either and depth < _MOST_DEPTH:
        kinds = [kind_of(one, depth + 1) for one in either]
        text = " or ".join(dict.fromkeys(kind.text for kind in kinds))
        return Kind(text=text, schema=next((one.schema for one in kinds if one.schema), None))
    if "const" in schema:
        return Kind(text=json.dumps(schema["const"]))
    if "enum" in schema:
        return Kind(text=_one_of(schema["enum"]))
    return _plain_kind(schema, depth)


def _one_of(values: list[Any]) -> str:
    shown = ", ".join(json.dumps(one) for one in values[:_MOST_VALUES])
    return f"one of {shown}" + (" …" if len(values) > _MOST_VALUES else "")


def _plain_kind(schema: Document, depth: int) -> Kind:
    name = schema.get("type", "anything")
    if name == "array" and depth < _MOST_DEPTH:
        inner = kind_of(schema.get("items", {}), depth + 1)
        return Kind(text=f"list of {inner.text}", schema=inner.schema)
    if name == "object":
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping) and depth < _MOST_DEPTH:
            inner = kind_of(values, depth + 1)
            return Kind(text=f"names → {inner.text}", schema=inner.schema)
        return Kind(text="object")
    words = {
        "integer": "whole number",
        "number": "number",
        "string": "text",
        "boolean": "true or false",
    }
    return Kind(text=words.get(str(name), str(name)) + _bounds(schema))


def _bounds(schema: Document) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f", {least:,} to {most:,}"
    if least is not None:
        return f", {least:,} or more"
    if schema.get("maxLength") is not None and schema.get("type") == "string":
        return f", {schema['maxLength']:,} characters at most"
    return ""


# --- an example -----------------------------------------------------------------------------------


def _example(document: Document, method: str, path: str, found: Document) -> str:
    """The call with curl: what must be given, and nothing else."""
    query = [
        f"{one['name']}={_upper(one['name'])}"
        for one in found.get("parameters", ())
        if one.get("in") == "query" and one.get("required")
    ]
    for one in found.get("parameters", ()):
        if one.get("in") == "path":
            path = path.replace(f"{{{one['name']}}}", _upper(one["name"]))
    url = f"$GPUCOMMONS_URL{path}" + (f"?{'&'.join(query)}" if query else "")
    words = ["curl"]
    if method != "get":
        words.append(f"-X {method.upper()}")
    if found.get("security"):
        words.append('-H "Authorization: token $TOKEN"')
    content = _content(found.get("requestBody", {}))
    if content is not None and "json" in content[0]:
        given = json.dumps(example_of(document, content[1]), ensure_ascii=False)
        words += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(given)}"]
    elif content is not None or path.startswith("/v1/snapshots/"):
        words.append("--data-binary @FILE")
    return " \\\n  ".join([*words, f'"{url}"'])


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")


def example_of(document: Document, schema: Document, depth: int = 0) -> Any:
    """A value of this kind, as small as can be."""
    if depth > _MOST_DEPTH:
        return None
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        return example_of(document, _schemas(document).get(name, {}), depth + 1)
    for given in ("example", "const", "default"):
        if schema.get(given) is not None:
            return schema[given]
    if schema.get("enum"):
        return schema["enum"][0]
    either = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if either:
        return example_of(document, either[0], depth + 1)
    return _plain_example(document, schema, depth)


def _plain_example(document: Document, schema: Document, depth: int) -> Any:
    match schema.get("type"):
        case "object":
            properties, required = schema.get("properties", {}), schema.get("required", ())
            return {
                name: example_of(document, properties.get(name, {}), depth + 1) for name in required
            }
        case "array":
            items = [example_of(document, schema.get("items", {}), depth + 1)]
            return items if schema.get("minItems") else []
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case "string":
            return "…"
        case _:
            return None
