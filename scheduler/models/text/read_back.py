"""Which form a kept English sentence was made with: so it can be said in the reader's language.

What is kept (the audit, why a lease ended) is the sentence that was true when it was written. What has
none of the forms stays as it is. For screens alone: nothing is decided by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

_PLACE = re.compile(r"%\((\w+)\)s")
#: Values that people wrote; all others are names and numbers, without a blank.
_ANYTHING = frozenset({"changes", "reason", "length"})


def form_of(text: str, forms: Sequence[str]) -> tuple[str, Mapping[str, str]] | None:
    """The first of the forms that fits, the narrower ones first, and what stands in its places."""
    for form in forms:
        found = _pattern(form).fullmatch(text)
        if found:
            return form, found.groupdict()
    return None


@cache
def _pattern(form: str) -> re.Pattern[str]:
    parts = _PLACE.split(form)
    return re.compile(
        "".join(
            f"(?P<{part}>{'.+' if part in _ANYTHING else '[^ ]+'})"
            if index % 2
            else re.escape(part)
            for index, part in enumerate(parts)
        )
    )
