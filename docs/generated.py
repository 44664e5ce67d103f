"""Writes the pages of the reference that follow from the code: every call, command and setting.

They are made anew at each build, into ``docs/reference/generated``, so they cannot be out of date.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from generated_fields import field_words
from generated_settings import settings
from generated_words import at_one_width, escaped

from gpucommons.scheduler.api.app import describe
from gpucommons.scheduler.cli.commands import build_parser
from gpucommons.scheduler.pages.present.api_document import (
    ApiPage,
    Field,
    Kind,
    Operation,
    Schema,
    api_page,
)


def write(folder: Path) -> None:
    """Write all of them; what is the same already is left alone, so that it is not built again."""
    folder.mkdir(exist_ok=True)
    page = api_page(describe())
    for name, lines in {
        "calls": _calls(page),
        "bodies": _bodies(page),
        "commands": _commands(),
        "settings": settings(),
    }.items():
        with at_one_width():
            path, text = folder / f"{name}.md", "\n".join(lines) + "\n"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


# --- calls ----------------------------------------------------------------------------------------


def _calls(page: ApiPage) -> Iterator[str]:
    yield "# Every call\n"
    yield "What the API itself serves as OpenAPI, arranged. `TOKEN` is a token of JupyterHub; words in"
    yield "capitals are to be replaced. [How to call it](../rest-api.md) · [Bodies and answers](bodies.md)\n"
    for group in page.groups:
        yield f"## {group.title}\n"
        for one in group.operations:
            yield from _call(one)
    yield "## Errors\n"
    yield "| status | meaning |\n|---|---|"
    for error in page.errors:
        yield f"| {error.status} | {_cell(error.text)} |"


def _call(one: Operation) -> Iterator[str]:
    yield f"### {one.method} {one.path}\n"
    yield escaped(one.text) + ("" if one.needs_token else " Needs no token.") + "\n"
    if one.parameters:
        yield from _fields(one.parameters)
    if one.body is not None:
        yield f"Body: {_kind(one.body)}\n"
    answers = (
        f"{a.status} {escaped(a.text)}{f', {_kind(a.kind)}' if a.kind else ''}" for a in one.answers
    )
    yield f"Answer: {'; '.join(answers)}\n"
    if one.errors:
        yield f"Errors: {', '.join(map(str, one.errors))}\n"
    yield f"```text\n{one.example}\n```\n"


def _bodies(page: ApiPage) -> Iterator[str]:
    yield "# Bodies and answers\n"
    yield "What is sent to and comes from [the calls](calls.md), by name.\n"
    for schema in page.schemas:
        yield from _schema(schema)


def _schema(schema: Schema) -> Iterator[str]:
    yield f"({_label(schema.name)})=\n"
    yield f"## {schema.name}\n"
    if schema.text:
        yield escaped(schema.text) + "\n"
    if schema.fields:
        words = field_words(schema.name)
        yield from _fields(
            [replace(one, text=one.text or words.get(one.name, "")) for one in schema.fields]
        )
    elif schema.kind is not None:
        yield _kind(schema.kind) + "\n"


def _fields(fields: Sequence[Field]) -> Iterator[str]:
    yield "| name | kind | meaning |\n|---|---|---|"
    for one in fields:
        meaning = " – ".join(part for part in (_cell(one.text), one.where) if part)
        must = ", required" if one.required else ""
        yield f"| `{one.name}`{must} | {_cell(_kind(one.kind), known=True)} | {meaning} |"
    yield ""


def _kind(kind: Kind) -> str:
    text = escaped(kind.text)
    return f"[{text}](#{_label(kind.schema)})" if kind.schema else text


def _label(schema: str) -> str:
    return f"body-{schema.lower()}"


def _cell(text: str, *, known: bool = False) -> str:
    return (text if known else escaped(text)).replace("|", "\\|")


# --- commands -------------------------------------------------------------------------------------


def _commands() -> Iterator[str]:
    yield "# Every command\n"
    yield "What `--help` says, of all of them. [What they are for](../command-line.md)\n"
    parser = build_parser()
    yield f"```text\n{parser.format_help().rstrip()}\n```\n"
    yield from _below(parser, depth=2)


def _below(parser: argparse.ArgumentParser, *, depth: int) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in dict.fromkeys(action.choices.values()):
                yield f"{'#' * depth} {command.prog}\n"
                yield f"```text\n{command.format_help().rstrip()}\n```\n"
                yield from _below(command, depth=depth + 1)
