"""The messages of sentences that admins read: the past played again, and what becomes of idle notebooks.

Placeholders are those of :mod:`~gpucommons.scheduler.languages.core_messages`.
"""

from __future__ import annotations

from gpucommons.scheduler.languages.texts import gettext_noop as _

_REPLAYED = (
    _(
        "%(number)s notebooks and jobs of the last %(days)s days, played again on today's %(all_number)s GPUs."
    ),
    _(
        "%(number)s notebooks and jobs of the last %(hours_number)s hours, played again on today's"
        " %(all_number)s GPUs."
    ),
    _(
        "More than %(number)s ended in the last %(days)s days: what is older than that is not played."
    ),
    _("%(number)s of them could not be submitted: a team or pool is gone."),
    _("The time was enough for the first %(number)s hours of them."),
    _("After: %(more_words)s, which are in no quota unless one is changed, and so are borrowed."),
    _("All figures are simulated: that past, played with today's quotas."),
    _(
        "All figures are simulated, those before the change too: that past, played with today's quotas."
    ),
    _(
        "Left out of the waits, because they ask for more than their team's quota and never start:"
        " %(before_number)s before, %(after_number)s after."
    ),
    _(
        "Lost, at most: as if work saved every %(number)s min and loaded for %(other_number)s min when it"
        " went on; receipts and the report say what stops really cost."
    ),
    _(
        "In truth there was 1 eviction; played with today's quotas all the time there is %(played_words)s,"
        " which is what changes are compared with."
    ),
    _(
        "In truth there was 1 eviction; played with today's quotas all the time there are %(played_words)s,"
        " which is what changes are compared with."
    ),
    _(
        "In truth there were %(number)s evictions; played with today's quotas all the time there is"
        " %(played_words)s, which is what changes are compared with."
    ),
    _(
        "In truth there were %(number)s evictions; played with today's quotas all the time there are"
        " %(played_words)s, which is what changes are compared with."
    ),
    _(
        "In truth there were no evictions; played with today's quotas all the time there is %(played_words)s,"
        " which is what changes are compared with."
    ),
    _(
        "In truth there were no evictions; played with today's quotas all the time there are %(played_words)s,"
        " which is what changes are compared with."
    ),
    _("No wait and no eviction would have been different: they would have been idle."),
    _("Nothing would have been different."),
)
_IDLE = (
    _(
        "Its kernels live on and others have its GPU; its next cell waits in line for it, and goes on."
    ),
    _("Its server is stopped."),
    _("Its server restarts without its GPU."),
    _("Kernels that can be saved are kept and go on there."),
    _("Kernels that can be saved are kept and go on when it is started again."),
    _("Variables that can be stored are kept; all else of its kernels is lost."),
    _("Nothing of its kernels is kept."),
    _("Its server has not said yet what it keeps of its kernels."),
)
#: Whole, from the first letter to the full stop.
SENTENCES = (*_REPLAYED, *_IDLE)
#: What stands within them.
PHRASES = (
    _("%(number)s more in %(pool)s"),
    _("%(first_words)s and %(other_words)s"),
)
