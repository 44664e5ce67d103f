"""The messages of what a stop costs a job, before it is submitted and after it came, and of whose quota it takes.

Placeholders are those of :mod:`~gpucommons.scheduler.languages.core_messages`. How a job goes on is a clause
without a subject, and so it is in every language; *it* is the job.
"""

from __future__ import annotations

from gpucommons.scheduler.languages.texts import gettext_noop as _

_QUOTA = (
    _("Needs no GPU: it counts against no GPU quota."),
    _(
        "Guaranteed. %(team)s has %(free_number)s of %(number)s guaranteed GPUs free: no other team can stop"
        " this job."
    ),
    _(
        "Borrowed. %(team)s has no guaranteed GPUs in pool %(pool)s, so this job borrows %(number)s:"
        " %(taken_words)s."
    ),
    _(
        "Borrowed. %(team)s has %(free_number)s of %(all_number)s guaranteed GPUs free, so this job borrows"
        " %(number)s: %(taken_words)s."
    ),
    _(
        "Borrowed. It runs on GPUs that are kept for notebooks or for other guarantees, so this job borrows"
        " %(number)s and stops nobody: %(taken_words)s. Its guarantee may win GPUs back then."
    ),
    _(
        "Borrowed. Only GPUs that are kept for notebooks or for other guarantees fit it now, so this job"
        " borrows %(number)s and stops nobody: %(taken_words)s. Its guarantee may win GPUs back then."
    ),
    _(
        "Borrowed. Work of this kind leaves the guarantee of %(team)s to others and runs on idle GPUs, here"
        " %(number)s: %(taken_words)s."
    ),
    _("With %(number)s no other team could stop it."),
    _("It would start now."),
)
_BEFORE_START = (
    _("If it is stopped before it saved a checkpoint: %(anew_words)s."),
    _(
        "If it is stopped before it saved a checkpoint: its memory is saved and it goes on where it stopped."
        " If that fails, %(anew_words)s."
    ),
    _("Safe to borrow: %(job)s, of the same code, was stopped and went on (%(span)s)."),
    _(
        "If it is stopped before it saved a checkpoint: its memory is saved, unless it is more than"
        " %(most_size)s or holds what cannot be saved, and it goes on where it stopped. Else"
        " %(anew_words)s."
    ),
)
#: Whether a stop was followed by going on.
_SEEN = (
    _("It is stopped once after its first save, while nobody waits, to see that it goes on."),
    _("Testing that this job can be stopped."),
    _("Testing that this job can be stopped: it is to go on %(at_words)s."),
    _("Tested: stops and goes on %(at_words)s (%(span)s)."),
    _("Tested: %(failed_words)s."),
    _("Stopped: %(failed_words)s."),
    _("It may run only inside its team's guarantee."),
    _("It was stopped and went on %(at_words)s (%(span)s)."),
    _("It was stopped, and whether it went on %(at_words)s cannot be told from what it says."),
    _("It was stopped and runs again: its next word shows whether it goes on %(at_words)s."),
    _("It was stopped: whether it goes on %(at_words)s is seen once it runs again."),
)
SENTENCES = (*_QUOTA, *_BEFORE_START, *_SEEN)
_WHERE = (
    _("where it stopped"),
    _("at %(unit)s %(number)s"),
    _("from its files, %(unit)s %(number)s or later first"),
)
_DID_NOT_GO_ON = (
    _("it still ran when its grace was over, and had to be killed"),
    _("its processes were to be saved: they were not"),
    _("its saved memory was not woken"),
    _("it had %(unit)s %(number)s and began again at %(other_unit)s %(other_number)s"),
)
_CAUSES = (
    _("for %(team)s (its notebooks)"),
    _("for %(team)s (its guarantee)"),
    _("for %(team)s (its share)"),
    _("for %(job)s (higher priority)"),
    _("for %(job)s (it waits for room)"),
    _("to go on with 1 worker"),
    _("to go on with %(number)s workers"),
    _("by %(user)s"),
    _("to make room for %(job)s, and goes on elsewhere"),
    _("to make room for a job of %(team)s, and goes on elsewhere"),
    _("to go on with 1 worker %(cause_words)s"),
    _("to go on with %(number)s workers %(cause_words)s"),
    _("to see that it can be stopped and goes on"),
    _("because its test failed, and goes on inside the guarantee of %(team)s"),
    _("because the cloud takes %(node)s back in %(span)s"),
    _("%(cause_words)s, left with exit status 0"),
    _("%(cause_words)s, had to be killed"),
)
_GOES_ON = (
    _("goes on from %(unit)s %(number)s"),
    _("goes on where it stopped"),
    _("starts its command anew and finds the files that it wrote"),
    _("starts its command anew and finds the files that it wrote, if any are kept"),
    _("starts over"),
    _("starts over, because it has saved no checkpoint"),
    _("starts over, because it has saved no checkpoint and changed no file in its working folder"),
    _("goes on where it stopped. %(saved_size)s of memory saved in %(span)s. 0 steps lost"),
    _("goes on where it stopped: its memory is saved when it is stopped"),
    _("goes on where it stopped: %(saved_size)s of its memory is saved"),
    _(
        "goes on where it stopped: its memory is saved when it is stopped; if that fails, it %(how_words)s"
    ),
    _(
        "goes on where it stopped: its memory is saved when it is stopped, unless it is more than"
        " %(most_size)s or holds what cannot be saved; then it %(how_words)s"
    ),
    _("%(how_words)s; at most %(span)s of work since then is repeated"),
    _("%(how_words)s; %(span)s of work is lost"),
    _("%(how_words)s; %(span)s of work is lost, unless its script goes on from files of its own"),
    _("%(how_words)s; what it did since it last saved is repeated, %(span)s of work at most"),
)
_ENDS = (
    _("It finished"),
    _("It could not start"),
    _("It was lost without a trace"),
    _("It was ended by signal %(number)s"),
    _("It ended with exit status %(number)s"),
    _("Stopped %(cause_words)s"),
    _("Stopped %(cause_words)s: %(how_words)s"),
    _("Paused %(cause_words)s"),
    _("Paused %(cause_words)s: %(how_words)s"),
    _("Cancelled %(cause_words)s"),
    _("Not all workers ran within %(span)s"),
    _("It ran longer than its limit of %(span)s"),
    _("It ran longer than its limit of %(span)s, %(number)s attempts together"),
    _("A node of its gang, %(node)s, was lost"),
)
PHRASES = (
    _("other teams can take it back, and it waits again"),
    _("other teams can take them back, and it waits again"),
    _("it starts its command anew and finds the files that it wrote"),
    _("it starts its command anew and finds none of its files"),
    *_CAUSES,
    *_GOES_ON,
    *_ENDS,
    *_WHERE,
    *_DID_NOT_GO_ON,
)
