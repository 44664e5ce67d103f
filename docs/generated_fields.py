"""What fields of bodies mean, from the comments beside them in the code."""

from __future__ import annotations

from collections.abc import Mapping

from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer

from gpucommons.scheduler import models


def field_words(schema: str) -> Mapping[str, str]:
    """By name, of a body and all that it inherits from; those without a word are left out."""
    found: dict[str, str] = {}
    for kind in reversed(getattr(getattr(models, schema, None), "__mro__", ())):
        try:
            told = ModuleAnalyzer.for_module(kind.__module__).find_attr_docs()
        except PycodeError:
            continue
        found |= {
            name: " ".join(" ".join(lines).split()).replace("``", "")
            for (owner, name), lines in told.items()
            if owner == kind.__name__
        }
    return found
