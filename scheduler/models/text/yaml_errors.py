"""What is wrong with a YAML file, in a sentence with the line: the parser's own words are for its authors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.files.yaml_text import nodes_of, read_yaml
from gpucommons.scheduler.models.text.field_errors import listed, mistakes, named

#: Parts of the parser's words, and what a person may do about it.
_SENTENCES = (
    ("found character '\\t'", "a tab cannot indent: use spaces"),
    ("mapping values are not allowed", "a second colon in the line: put the text in quotes"),
    ("could not find expected ':'", "a name without a colon after it"),
    ("expected <block end>", "this line is not indented like those above it"),
    ("expected ',' or ']'", "a list that begins with [ is not closed with ]"),
    ("expected ',' or '}'", "a mapping that begins with { is not closed with }"),
    ("unexpected end of stream", "a text that begins with a quote does not end with one"),
    ("found undefined alias", "an alias (*) that no anchor (&) defines"),
    ("found duplicate anchor", "two anchors (&) have the same name"),
    ("could not determine a constructor", "a tag (!) that has no meaning here"),
    ("expected the node content", "a list or mapping ends before it holds anything"),
    ("cannot start any token", "this character cannot begin a value: put the text in quotes"),
    ("expected a single document", "a second document (---) in a file that may hold one"),
    ("special characters are not allowed", "a control character in the text"),
)


M = TypeVar("M", bound=BaseModel)


def read_model(kind: type[M], text: str, *, empty: object = None) -> M:
    """What a YAML text says, as a model; ``empty`` is what a text without any stands for.

    Raises
    ------
    BadRequest
        With what is wrong, and where; of what it is the text, the caller adds.
    """
    try:
        return kind.model_validate(read_yaml(text) or empty)
    except yaml.YAMLError as error:
        why = syntax_sentence(error)
    except ValidationError as error:
        why = field_sentences(text, error)
    raise BadRequest(why)


def syntax_sentence(error: yaml.YAMLError) -> str:
    """Where and why a file cannot be read as YAML."""
    text = str(error)
    found = next((sentence for part, sentence in _SENTENCES if part in text), None)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
    return where + (found or str(getattr(error, "problem", "") or "it cannot be read"))


def field_sentences(
    content: str | bytes,
    error: ValidationError,
    *,
    below: Sequence[str] = (),
    also: Collection[str] = (),
) -> str:
    """What is wrong first with the fields of a file, each with its line; ``below`` is where they begin.

    ``also`` are fields that a file has there beside those of the model.
    """
    tree = nodes_of(content)
    parts = []
    for item, sentence in mistakes(error, also=also):
        line = _line_of(tree, (*below, *item["loc"]))
        where = "" if line is None else f"line {line}, "
        # Our own sentences about all of it say what they are about.
        name = named(item["loc"]) or ("" if item["type"] == "value_error" else "the file")
        parts.append(f"{where}{name}{': ' if name else ''}{sentence}")
    return listed(parts, error)


def _line_of(node: yaml.Node | None, steps: Sequence[int | str]) -> int | None:
    """The line of the deepest part that is in the file."""
    line = None
    for step in steps:
        found = None
        if isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == step), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            found = (node.value[step],) * 2 if step < len(node.value) else None
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return line
