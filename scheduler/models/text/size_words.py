"""The sentence on a notebook size, in the language of the hub's form and of the ticket's page."""

from __future__ import annotations

from gpucommons.scheduler.languages.texts import gettext, gettext_noop
from gpucommons.scheduler.models.notebooks.offers import SizeView

#: By the code that the scheduler gives its sentence; in English they are the same.
SENTENCES = {
    "free": gettext_noop("free now"),
    "no-quota": gettext_noop("%(team)s has no notebook GPUs here: ask your admin"),
    "too-large": gettext_noop(
        "needs %(asked)s, the largest notebook of %(team)s has %(most)s: ask your admin"
    ),
    "in-use": gettext_noop(
        "needs %(asked)s, %(team)s has %(has)s: wait in line, or ask your admin"
    ),
    "no-piece": gettext_noop("%(team)s's notebooks leave no piece of this size: wait in line"),
    "lent-for-now": gettext_noop(
        "lent to training; too many turns of yours were in vain to win it back: wait until it is free"
    ),
    "lent": gettext_noop("yours, back in %(seconds)s s: lent to training, which makes room"),
    "lent-others-free": gettext_noop(
        "yours, back in %(seconds)s s: lent to training, which makes room; other GPUs are free now, but"
        " not for %(team)s's notebooks"
    ),
}


def size_text(size: SizeView) -> tuple[str, bool]:
    """The sentence, and whether it is in the reader's language: a newer scheduler may have others."""
    # An older scheduler tells no code.
    known = SENTENCES.get(size.code or size.availability)
    try:
        return (size.text, False) if known is None else (gettext(known) % size.values, True)
    except KeyError:
        return size.text, False
