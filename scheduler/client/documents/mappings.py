"""A YAML file whose content is a mapping: what is no such file is said with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.text.yaml_errors import syntax_sentence

#: A larger file is no description of a job or of teams.
MAX_BYTES = 4 << 20
#: Nor a job or pipeline: a server reads one while others wait.
MAX_JOB_BYTES = 256 << 10
#: What aliases (*) may add: a few hundred bytes of aliases of aliases can stand for gigabytes.
_MOST_BY_ALIASES = 10_000
#: A longer number or date is none, and takes long to read.
_LONGEST_NUMBER = 400
_NUMBERS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp"))


def read_mapping(path: Path, *, of: str) -> dict[str, Any]:
    """Read a YAML file that must be a mapping ``of`` something.

    Raises
    ------
    BadRequest
        When it cannot be read, or is not such a file.
    """
    return mapping_in(read_content(path, max_bytes=MAX_BYTES), path, of=of)


def read_content(path: Path, *, max_bytes: int) -> bytes:
    """What is in the file, once: what is said of it later is of the same bytes.

    Raises
    ------
    BadRequest
        When it cannot be read, or is larger.
    """
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}."
        raise BadRequest(message) from None
    if len(content) > max_bytes:
        message = f"{path} is larger than {max_bytes >> 10:,} KiB: this is not such a file."
        raise BadRequest(message)
    return content


def mapping_in(content: bytes, path: Path, *, of: str) -> dict[str, Any]:
    """The mapping that a file's content is.

    Raises
    ------
    BadRequest
        When it is not such a file.
    """
    try:
        document = _built(content)
    except (yaml.YAMLError, RecursionError) as error:
        message = f"{path} is not YAML: {syntax_sentence(error)}."
        raise BadRequest(message) from None
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        message = f"{path} must be a mapping of {of}."
        raise BadRequest(message)
    return document


def _built(content: bytes) -> object:
    """The document, once it is known that its aliases stand for no more than a file may say."""
    loader = _Loader(content)
    try:
        tree = loader.get_single_node()
        if tree is None:
            return None
        sizes: dict[int, int] = {}
        if _expanded(tree, sizes, set()) - len(sizes) > _MOST_BY_ALIASES:
            message = f"aliases (*) stand for more than {_MOST_BY_ALIASES:,} values: write them out"
            raise yaml.constructor.ConstructorError(problem=message)
        return loader.construct_document(tree)
    finally:
        loader.dispose()


def _expanded(node: yaml.Node, sizes: dict[int, int], above: set[int]) -> int:
    """How many values it stands for; ``sizes`` are those of all that was counted, by identity."""
    if id(node) in above:
        message = "an alias (*) stands inside of what it names"
        raise yaml.constructor.ConstructorError(problem=message, problem_mark=node.start_mark)
    if id(node) not in sizes:
        parts: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            parts = node.value
        elif isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        above.add(id(node))
        sizes[id(node)] = 1 + sum(_expanded(part, sizes, above) for part in parts)
        above.remove(id(node))
    return sizes[id(node)]


class _Loader(yaml.SafeLoader):
    """Says with its line what looks like a value and is none: a 13th month, half a character."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            if isinstance(node, yaml.ScalarNode):
                _check_scalar(node)
            return super().construct_object(node, deep=deep)
        except (ValueError, LookupError, AttributeError, ArithmeticError):
            message = "this is no such date, number or text: put it in quotes, or correct it"
            raise yaml.constructor.ConstructorError(
                problem=message, problem_mark=node.start_mark
            ) from None


def _check_scalar(node: yaml.ScalarNode) -> None:
    """Raise ValueError for what nothing can be made of."""
    node.value.encode()
    if node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
        raise ValueError(node.tag)
