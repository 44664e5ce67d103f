"""Reads YAML, for all that is written in it: fast where the C library is there, and bounded.

A text of 240 KB takes a second with the parser in Python, and a server reads it while others wait.
"""

from __future__ import annotations

from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.parser import ParserError
from yaml.reader import ReaderError
from yaml.resolver import Resolver
from yaml.scanner import ScannerError

#: What aliases (*) may add: a few hundred bytes of aliases of aliases can stand for gigabytes.
_MOST_BY_ALIASES = 10_000
#: A longer number or date is none, and takes long to read.
_LONGEST_NUMBER = 400
_NUMBERS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp"))
_TRUTH, _TEXT = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:str"
#: With more open brackets than anybody writes, the parser in Python takes seconds for a text of 2 KB.
_MOST_OPEN_BRACKETS = 100
#: What the C library says where it cannot split a text.
_NOT_SPLIT = (ScannerError, ParserError, ReaderError)


def read_yaml(text: str | bytes) -> object:
    """What the text stands for; None where it is empty.

    Raises
    ------
    yaml.YAMLError
        When it is no YAML, or its aliases stand for more than a text may say.
    """
    try:
        try:
            return _built(_Loader(text))
        except _NOT_SPLIT:
            # Of the same mistake the parser in Python says more. What is found later has its line already.
            return _built(_SlowLoader(text))
    except RecursionError:
        raise ConstructorError(problem="it is nested too deeply") from None


def nodes_of(text: str | bytes) -> yaml.Node | None:
    """The same as nodes, which know their lines; None also where it cannot be read."""
    loader = _Loader(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
    except (yaml.YAMLError, RecursionError):
        return None
    else:
        return node
    finally:
        loader.dispose()


class _Checks(SafeConstructor):
    """Says with its line what looks like a value and is none: a 13th month, half a character."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """``on: ok`` names a field, and YAML 1.1 would read a truth: no mapping of ours has one as a key."""
        if isinstance(node, yaml.MappingNode):
            for key, _ in node.value:
                key.tag = _TEXT if key.tag == _TRUTH else key.tag
        return super().construct_mapping(node, deep=deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            if isinstance(node, yaml.ScalarNode):
                _check_scalar(node)
            return super().construct_object(node, deep=deep)
        except (ValueError, LookupError, AttributeError, ArithmeticError):
            message = "this is no such date, number or text: put it in quotes, or correct it"
            raise ConstructorError(problem=message, problem_mark=node.start_mark) from None


class _SlowLoader(_Checks, yaml.SafeLoader):
    """All of it in Python: each open bracket is looked at again with each word."""

    def fetch_flow_collection_start(self, kind: type[yaml.Token]) -> None:
        """A bracket opens."""
        if self.flow_level >= _MOST_OPEN_BRACKETS:
            raise ScannerError(problem="it is nested too deeply", problem_mark=self.get_mark())
        super().fetch_flow_collection_start(kind)


if yaml.__with_libyaml__:
    from yaml._yaml import CParser

    class _Loader(_Checks, Composer, CParser, Resolver):
        """The C library splits the text; nodes are put together in Python, which bounds their depth."""

        def __init__(self, text: str | bytes) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            SafeConstructor.__init__(self)
            Resolver.__init__(self)

else:
    _Loader = _SlowLoader  # type: ignore[misc,assignment]


def _built(loader: Any) -> object:
    """The document, once it is known that its aliases stand for no more than a text may say."""
    try:
        tree = loader.get_single_node()
        if tree is None:
            return None
        sizes: dict[int, int] = {}
        if _expanded(tree, sizes, set()) - len(sizes) > _MOST_BY_ALIASES:
            message = f"aliases (*) stand for more than {_MOST_BY_ALIASES:,} values: write them out"
            raise ConstructorError(problem=message)
        document: object = loader.construct_document(tree)
        return document
    finally:
        loader.dispose()


def _expanded(node: yaml.Node, sizes: dict[int, int], above: set[int]) -> int:
    """How many values it stands for; ``sizes`` are those of all that was counted, by identity."""
    if id(node) in above:
        message = "an alias (*) stands inside of what it names"
        raise ConstructorError(problem=message, problem_mark=node.start_mark)
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


def _check_scalar(node: yaml.ScalarNode) -> None:
    """Raise ValueError for what nothing can be made of."""
    node.value.encode()
    if node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
        raise ValueError(node.tag)
