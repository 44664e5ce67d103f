"""Names of the core are made of documented words: a newcomer can look up what a name means."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from gpucommons.scheduler import core

FOLDER = Path(core.__file__).parent
WORDS = Path(__file__).parents[3] / "docs" / "explanation" / "words.md"

#: Words that programs everywhere use as this one does.
ORDINARY = frozenset(
    [
        "account",
        "accounts",
        "advance",
        "agent",
        "and",
        "announce",
        "applied",
        "arrays",
        "audit",
        "availability",
        "available",
        "below",
        "board",
        "by",
        "can",
        "cancel",
        "carried",
        "cause",
        "change",
        "changes",
        "class",
        "clock",
        "config",
        "consolidation",
        "counted",
        "counterfactual",
        "counterfactuals",
        "deadlines",
        "device",
        "due",
        "eligible",
        "ended",
        "endings",
        "entry",
        "event",
        "events",
        "evolving",
        "exit",
        "exits",
        "explain",
        "fair",
        "files",
        "finished",
        "fragments",
        "freed",
        "from",
        "going",
        "guarantee",
        "host",
        "idle",
        "idleness",
        "impossible",
        "index",
        "job",
        "keep",
        "kept",
        "key",
        "kind",
        "layout",
        "known",
        "learned",
        "learning",
        "leaving",
        "lending",
        "lent",
        "lifecycle",
        "limits",
        "log",
        "meaning",
        "measured",
        "memory",
        "model",
        "moves",
        "narrowed",
        "never",
        "new",
        "next",
        "node",
        "not",
        "note",
        "observations",
        "observed",
        "offered",
        "on",
        "one",
        "option",
        "ordering",
        "parts",
        "patterns",
        "pause",
        "paused",
        "pending",
        "place",
        "pools",
        "position",
        "preemption",
        "progress",
        "promise",
        "put",
        "queue",
        "quoted",
        "quotes",
        "reason",
        "reasons",
        "records",
        "released",
        "report",
        "reported",
        "resize",
        "resized",
        "resources",
        "restart",
        "restarted",
        "resume",
        "role",
        "row",
        "rows",
        "rules",
        "saving",
        "scorer",
        "search",
        "selection",
        "sentences",
        "server",
        "set",
        "settings",
        "settled",
        "share",
        "signal",
        "signalled",
        "size",
        "solver",
        "span",
        "spare",
        "spec",
        "started",
        "state",
        "stop",
        "stopping",
        "stops",
        "submit",
        "time",
        "told",
        "trial",
        "turns",
        "types",
        "unhealthy",
        "unused",
        "use",
        "used",
        "uses",
        "verdict",
        "versions",
        "view",
        "whatif",
        "words",
        "worker",
        "workload",
        "worth",
    ]
)


def documented() -> frozenset[str]:
    """Every word of the table's first column, in its singular too."""
    rows = re.findall(r"^\| ([^|]+) \|", WORDS.read_text(), re.MULTILINE)
    found = {word for row in rows for word in re.findall(r"[a-z]+", row.lower())}
    found |= set(re.findall(r"\*\*([a-z]+)\*\*", WORDS.read_text()))
    return frozenset(found | {word.removesuffix("s") for word in found})


def names() -> Iterator[str]:
    """Folders, modules and public classes."""
    for path in sorted(FOLDER.rglob("*.py")):
        inside = path.relative_to(FOLDER)
        yield from inside.with_suffix("").parts
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name


def words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def is_known(word: str, known: frozenset[str]) -> bool:
    forms = (word, word.removesuffix("s"), word.removesuffix("es"), word.removesuffix("ies") + "y")
    return any(form in known for form in forms)


def test_every_name_of_the_core_consists_of_documented_or_ordinary_words() -> None:
    known = documented() | ORDINARY
    unknown = {
        name: word
        for name in names()
        if name != "__init__"
        for word in words_of(name)
        if not is_known(word, known)
    }
    assert unknown == {}


def test_no_ordinary_word_is_listed_that_no_name_uses() -> None:
    used = {word for name in names() for word in words_of(name)}
    assert set() == ORDINARY - used
