"""The page of the API: every route of the real document, and nobody without login."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from api_of_one_call import openapi
from service_world import ServiceWorld, an_app

from gpucommons.scheduler.pages.api_docs import OpenApi
from gpucommons.scheduler.pages.present.api_document import api_page, example_of, kind_of


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """As the API serves it."""
    return an_app(ServiceWorld(Path(tmp_path_factory.mktemp("api")))).openapi()


def test_every_route_stands_in_a_group_with_a_name(document: dict[str, Any]) -> None:
    page = api_page(document)
    shown = {(one.method, one.path) for group in page.groups for one in group.operations}
    served = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }

    assert shown == served
    # A group whose title is its tag is one that nobody named.
    assert not [group for group in page.groups if group.title == group.anchor]
    anchors = [one.anchor for group in page.groups for one in group.operations]
    assert len(set(anchors)) == len(anchors)


def test_every_route_says_what_it_does_answers_and_may_refuse(document: dict[str, Any]) -> None:
    page = api_page(document)
    for group in page.groups:
        for one in group.operations:
            assert one.text, one.anchor
            assert one.answers, one.anchor
            assert set(one.errors) <= {error.status for error in page.errors}
    assert all(error.text for error in page.errors)


def test_every_schema_that_is_named_is_described(document: dict[str, Any]) -> None:
    page = api_page(document)
    fields = [field for schema in page.schemas for field in schema.fields]
    calls = [one for group in page.groups for one in group.operations]
    kinds = [field.kind for field in fields] + [one.body for one in calls if one.body]
    named = {kind.schema for kind in kinds if kind.schema}

    assert named <= {schema.name for schema in page.schemas}
    assert "JobRequest" in named


def test_every_example_is_one_command_of_curl(document: dict[str, Any]) -> None:
    for group in api_page(document).groups:
        for one in group.operations:
            words = shlex.split(one.example.replace("\\\n", " "))
            assert words[0] == "curl"
            assert re.fullmatch(r"\$GPUCOMMONS_URL(/[\w.-]+)+(\?[\w=&]+)?", words[-1]), words
            assert ("Authorization: token $TOKEN" in words) == one.needs_token


def test_a_submission_shows_what_must_be_given(document: dict[str, Any]) -> None:
    calls = [one for group in api_page(document).groups for one in group.operations]
    submit = next(one for one in calls if one.anchor == "post-submit")

    assert submit.body is not None
    assert submit.body.schema == "JobRequest"
    assert '"roles"' in submit.example


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 1024}, "whole number, 1 to 1,024"),
        ({"type": "integer", "minimum": 0}, "whole number, 0 or more"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "text or null"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Job"}}, "list of Job"),
        ({"enum": ["a", "b"]}, 'one of "a", "b"'),
        ({"additionalProperties": {"type": "string"}, "type": "object"}, "names → text"),
        ({}, "anything"),
    ],
)
def test_kinds_are_said_in_words(schema: dict[str, Any], text: str) -> None:
    assert kind_of(schema).text == text


def test_a_schema_that_names_itself_ends() -> None:
    itself = {"$ref": "#/components/schemas/Tree"}
    tree = {"type": "object", "required": ["below"], "properties": {"below": itself}}

    assert "below" in example_of({"components": {"schemas": {"Tree": tree}}}, itself)


async def test_people_read_every_call_after_login(
    visit: Any, scheduler: Any, document: dict[str, Any]
) -> None:
    scheduler.answers["GET /v1/openapi.json"] = OpenApi(document)
    alice = await visit("alice")
    text = await alice.page("docs")

    assert '<a href="/services/gpucommons/docs" aria-current="page">API</a>' in text
    for path in document["paths"]:
        assert f"<code>{path}</code>" in text
    # Nothing from elsewhere, and nothing that the headers forbid.
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', text)
    assert "style=" not in text
    assert "<script>" not in text


async def test_programs_get_the_document_itself(visit: Any) -> None:
    answer = await (await visit("alice")).get("docs/openapi.json")

    assert answer.json() == openapi()


async def test_without_login_nobody_reads_it(visit: Any, scheduler: Any) -> None:
    nobody = await visit(None)
    page, document = await nobody.get("docs"), await nobody.get("docs/openapi.json")

    assert (page.status_code, document.status_code) == (302, 401)
    assert page.headers["Location"].startswith("/hub/api/oauth2/authorize?")
    assert document.json()["error"] == "NotAuthenticated"
    assert scheduler.asked == []


async def test_what_the_document_says_stays_text(visit: Any, scheduler: Any) -> None:
    document = openapi()
    document["paths"]["/v1/jobs/{ref}"]["post"]["description"] = "<img src=x onerror=alert(1)>"
    scheduler.answers["GET /v1/openapi.json"] = OpenApi(document)

    assert "<img" not in await (await visit("alice")).page("docs")
