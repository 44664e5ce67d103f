"""What an admin changed, in the reader's language.

The audit keeps the sentence that was true when it was written, in English: it is read back by the form
that it was made with. What has no such form stays as it is.
"""

from __future__ import annotations

from gpucommons.scheduler.languages.texts import ENGLISH, gettext, gettext_noop, language
from gpucommons.scheduler.models.text.read_back import form_of

#: As ``core.events.settings`` write them, the narrower first.
_SENTENCES = (
    gettext_noop("%(team)s in pool %(pool)s: %(changes)s."),
    gettext_noop("The pool %(pool)s was created: %(changes)s."),
    gettext_noop("The pool %(pool)s was created."),
    gettext_noop("The pool %(pool)s: %(changes)s."),
    gettext_noop("The isolation of slices in pool %(pool)s was %(old)s, is %(new)s."),
    gettext_noop("The GPUs of %(pool)s are simulated."),
    gettext_noop("The GPUs of %(pool)s are not simulated."),
    gettext_noop("The hub-wide policy: %(changes)s."),
    gettext_noop("%(team)s was created: %(changes)s."),
    gettext_noop("%(team)s was created."),
    gettext_noop("%(team)s was removed."),
    gettext_noop("%(team)s: %(changes)s."),
)
#: Settings that change most, as sentences name them; others stand under the name that they have in files.
_SETTINGS = (
    gettext_noop("fixed"),
    gettext_noop("guaranteed"),
    gettext_noop("limit"),
    gettext_noop("weight"),
    gettext_noop("notice"),
    gettext_noop("grace"),
    gettext_noop("headroom"),
    gettext_noop("prices"),
    gettext_noop("budget"),
    gettext_noop("leads"),
    gettext_noop("members"),
)
_VALUES = (gettext_noop("none"), gettext_noop("yes"), gettext_noop("no"))


def change_words(text: str) -> str:
    """A sentence of the audit; in English, and where no form fits, as it was written."""
    if language() == ENGLISH:
        return text
    found = form_of(text, _SENTENCES)
    if found is None:
        return text
    sentence, values = found[0], dict(found[1])
    if "changes" in values:
        values["changes"] = _changes(values["changes"])
    return gettext(sentence, **values)


def _changes(text: str) -> str:
    return ", ".join(_change(part) for part in text.split(", "))


def _change(text: str) -> str:
    for name in _SETTINGS:
        if text.startswith(f"{name} "):
            values = text.removeprefix(f"{name} ").split(" → ")
            said = " → ".join(gettext(one) if one in _VALUES else one for one in values)
            return f"{gettext(name)} {said}"
    return text
