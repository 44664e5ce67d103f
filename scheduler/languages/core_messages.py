"""The messages of the core's sentences on why somebody waits, until when, and of what would help.

A placeholder's last word tells what stands there: ``number``, ``gpus``, ``span``, ``names``, ``words`` and
``list`` (translated themselves: :data:`PHRASES`), ``text`` (sentences), ``rest`` (anything, left as it is);
any other is a name. That none is missing, a test sees: it plays clusters and reads what the core says.
"""

from __future__ import annotations

from gpucommons.scheduler.languages.texts import gettext_noop as _

_NOTEBOOKS = (
    _("%(team)s has no notebook GPUs in pool %(pool)s."),
    _("Ask an admin for fixed quota, or start without a GPU."),
    _("The largest notebook of %(team)s has %(gpus)s."),
    _("Needs %(gpus)s; %(team)s has %(number)s of %(all_number)s notebook GPUs free."),
    _("%(team)s's notebook GPUs are lent: one can be won back, which takes a moment."),
    _("What is free now is not among them."),
    _("In line, it starts as soon as the GPU is cleared."),
    _(
        "Needs %(gpus)s in one piece; the %(number)s that %(team)s has free lie in smaller parts between"
        " its notebooks."
    ),
    _("A notebook cannot have %(gpus)s: sizes are ⅛, ¼, ½, 1, 2, 4, …"),
    _("%(place_words)s is lent: it can be won back, which takes a moment."),
    _("Its memory goes back to %(place_words)s, which another notebook has."),
    _(
        "Its memory goes back to the GPU that it came from, and %(node)s does not offer that one now."
    ),
    _(
        "%(user)s left the line, or did not start, %(number)s times within %(span)s after others' work had"
        " been stopped for it: this waits for GPUs that are free, and wins none back until %(after_span)s"
        " after it was submitted."
    ),
)
_PLACES = (
    _("Needs %(ask_words)s; %(free_words)s."),
    _("Needs %(ask_words)s; no node has that free."),
    _("Needs %(gpus)s; no GPU has that much free."),
    _("Needs %(ask_words)s with %(load_words)s; where GPUs are free, not enough cores are."),
    _("Needs %(ask_words)s with %(load_words)s; where GPUs are free, not enough memory is."),
    _(
        "Needs %(ask_words)s with %(load_words)s; where GPUs are free, not enough cores and memory is."
    ),
    _(
        "%(team)s has had more than its share of %(pool)s; a place is kept for %(other)s, for %(span)s each"
        " time that more of it is free."
    ),
    _("Would start now %(change_words)s."),
    _("Would be next %(change_words)s: others would be stopped for it."),
    _("Needs %(ask_words)s, for which no node is there yet."),
    _("Pool %(pool)s may get 1 more node; it takes work about %(span)s after it is asked for."),
    _(
        "Pool %(pool)s may get %(number)s more nodes; one takes work about %(span)s after it is asked for."
    ),
    _("%(pieces_words)s; moving %(who_list)s frees one."),
    _("Next in line: moving %(who_list)s makes room."),
    _("Next in line: %(gpus)s is being cleared, %(who_list)s ends there first."),
    _("Next in line: %(gpus)s is being cleared, %(who_list)s end there first."),
    _("Next in line: %(gpus)s are being cleared, %(who_list)s ends there first."),
    _("Next in line: %(gpus)s are being cleared, %(who_list)s end there first."),
    _("Next in line: room is being cleared, %(who_list)s ends there first."),
    _("Next in line: room is being cleared, %(who_list)s end there first."),
    _("There is no %(kind)s in %(where_words)s; there is: no GPU."),
    _("There is no %(kind)s in %(where_words)s; there is: %(kinds_names)s."),
    _(
        "Needs %(ask_words)s, which %(where_words)s cannot give even when empty: its nodes have at most"
        " %(gpus)s, %(cores_number)s cores and %(gib_number)s GiB each."
    ),
    _("Submit it smaller."),
    _("Needs %(ask_words)s, and in pool %(pool)s %(out_words)s."),
    _("Wait until a GPU takes work again, or ask an admin to look at it."),
    _("Wait until a node takes work again."),
    _("Wait until a node takes work again, or ask an admin to uncordon it."),
)
_LIMITS = (
    _(
        "%(team)s may hold %(gpus)s in pool %(pool)s and holds %(number)s; this needs %(asked_number)s."
    ),
    _("%(number)s of %(team)s's %(all_number)s guaranteed GPUs are in use, and %(cause_words)s."),
    _(
        "%(number)s of %(team)s's %(all_number)s guaranteed GPUs are in use, and %(cause_words)s:"
        " %(budget_text)s"
    ),
    _(
        "It asks for %(load_words)s, and no more than %(part_words)s go with %(gpus)s of a guarantee; beyond"
        " that %(borrower_words)s would have to borrow, which it may not."
    ),
    _(
        "It asks for %(load_words)s, and no more than %(part_words)s go with %(gpus)s of a guarantee; beyond"
        " that %(borrower_words)s would have to borrow, which it may not: %(budget_text)s"
    ),
    _("Would be inside the guarantee with at most %(load_words)s per worker."),
    _("Needs %(gpus)s, and %(cause_words)s."),
    _("It may use only what %(team)s is guaranteed, %(gpus)s: at this size it never starts."),
    _(
        "It may use only what %(team)s is guaranteed, which is nothing: at this size it never starts."
    ),
    _("Start it with %(gpus)s, or ask an admin for a guarantee of %(more_gpus)s."),
    _("Start it with %(gpus)s in all, or ask an admin for a guarantee of %(more_gpus)s."),
    _("Ask an admin for a guarantee of %(gpus)s."),
    _("%(team)s has no budget."),
    _("%(team)s has used up its %(month_words)s budget of %(amount_words)s."),
    _(
        "%(team)s has used %(number)s %% of its %(month_words)s budget: %(spent_number)s of %(amount_words)s."
    ),
    _("By its policy (no-new-jobs) no job of %(team)s starts until there is budget again."),
    _(
        "So %(team)s may not borrow, and nothing is guaranteed to it: at this size the job waits until there"
        " is budget again."
    ),
    _(
        "So %(team)s may not borrow, and only %(gpus)s is guaranteed to it: at this size the job waits until"
        " there is budget again."
    ),
    _(
        "So %(team)s may not borrow, and only %(gpus)s are guaranteed to it: at this size the job waits"
        " until there is budget again."
    ),
    _("Ask an admin for more budget."),
    _("Ask an admin for more budget, or start it with %(gpus)s."),
    _(
        "A GPU of %(pool)s costs %(amount_words)s per hour now, and it pays at most %(most_words)s"
        " (max_price)."
    ),
    _(
        "A GPU of %(pool)s costs %(amount_words)s per hour now, and the policy of the hub lets it pay at most"
        " %(most_words)s (max_price)."
    ),
    _(
        "A GPU of %(pool)s costs %(amount_words)s per hour now, and the policy of %(team)s lets it pay at"
        " most %(most_words)s (max_price)."
    ),
    _("It starts once one of its pools costs no more, or with a higher max_price."),
    _("It starts once one of its pools costs no more; an admin can raise max_price."),
)
_RULES = (
    _("The team %(team)s does not exist any more."),
    _("None of its pools (%(pool_names)s) exists."),
    _("Submit it for one of: %(pool_names)s."),
    _("Paused."),
    _("Resume it."),
    _("Paused at a rung of its %(kind)s %(parent)s: others are better so far."),
    _("It goes on by itself when it is among the best."),
    _("%(job)s, after which it should run, %(end_words)s."),
    _("%(job)s, after whose failure it should run, %(end_words)s."),
    _("Run that again."),
    _("Runs after %(job)s, which has not finished."),
    _("Scheduled to start %(span)s after it was submitted."),
    _("The last start did not work."),
    _("Its server did not start in time."),
    _("Tries again after %(span)s."),
    _("Policy `priorities`: %(priority)s is not allowed, only %(allowed_names)s."),
    _("Policy `max_milli_gpu_per_job`: asks for %(gpus)s, at most %(number)s."),
    _("Policy `max_workers`: asks for %(number)s workers, at most %(most_number)s."),
    _("Policy `environments`: %(environment)s is not allowed."),
    _("Policy `environments`: the default is not allowed."),
    _("Ask an admin, or submit less."),
    _("An admin can let the node take work again."),
)
_IN_THE_WAY = (
    _(
        "Your own notebook, idle when last checked, holds %(gpus)s: without that this would start now."
    ),
    _(
        "Your own notebook “%(server)s”, idle when last checked, holds %(gpus)s: without that this would"
        " start now."
    ),
    _(
        "Your own notebook, which has not started, is granted %(gpus)s: without that this would start now."
    ),
    _(
        "Your own notebook “%(server)s”, which has not started, is granted %(gpus)s: without that this would"
        " start now."
    ),
    _("Your own job %(job)s of lower priority holds %(gpus)s: without that this would start now."),
    _(
        "A team-mate's notebook, idle when last checked, holds %(gpus)s: without that this would start now."
    ),
    _(
        "%(user)s's notebook, idle when last checked, holds %(gpus)s: without that this would start now."
    ),
    _("Ask whether it is still needed."),
)
_LIKELY = (
    _("Likely %(window_words)s."),
    _("Likely %(window_words)s (%(note_words)s)."),
    _("Likely %(window_words)s, %(note_words)s."),
    _("Likely %(window_words)s, %(note_words)s; %(more_words)s."),
    _("Likely not within two weeks."),
    _("Likely not within two weeks; %(more_words)s."),
    _("Likely start unknown: %(cause_words)s."),
    _("Likely start unknown: %(cause_words)s; %(more_words)s."),
    _("It does not start as it was submitted."),
    # Where a column says before it that the start is unknown.
    "%(cause_words)s.",
    "%(cause_words)s; %(more_words)s.",
)
#: Whole, from the first letter to the full stop.
SENTENCES = (*_NOTEBOOKS, *_PLACES, *_LIMITS, *_RULES, *_IN_THE_WAY, *_LIKELY)
#: What stands within them.
PHRASES = (
    _("between %(low_words)s and %(high_words)s"),
    _("within %(high_words)s"),
    _("under %(span)s"),
    _("about %(span)s"),
    _("in %(high_words)s"),
    _("two weeks or more"),
    "%(low_number)s–%(span)s",
    "%(span)s",
    _("few jobs to judge by"),
    _("few notebooks to judge by: %(cause_words)s"),
    _("past estimates were often wrong"),
    _("past estimates right %(number)s of 10"),
    _("%(team)s's notebooks hold the GPUs for as long as they are used"),
    _("%(team)s's and %(other)s's notebooks hold the GPUs for as long as they are used"),
    _("too little is known about how long the work in its way runs"),
    _("nobody knows when its nodes take work again"),
    _("a rule or the budget of its team keeps it waiting"),
    _("at the latest in %(window_words)s, when another job's time limit ends"),
    _("at the latest in %(window_words)s, when %(job)s's time limit ends"),
    _("in %(window_words)s if what is idle stays idle"),
    _("with %(gpus)s"),
    _("with %(gpus)s per worker"),
    _("with at most %(load_words)s"),
    _("with at most %(load_words)s per worker"),
    _("with %(load_words)s per worker"),
    _("with 1 worker"),
    _("with %(number)s workers"),
    _("if it may borrow"),
    _("on the %(kind)s"),
    _("in pool %(pool)s"),
    _("with priority %(priority)s"),
    _("if %(user)s's idle notebook gives back its %(gpus)s"),
    _("if %(user)s's other notebook, which has not started, gives back its %(gpus)s"),
    _("if %(user)s's job of lower priority gives back its %(gpus)s"),
    _("1 core"),
    _("%(number)s cores"),
    _("%(number)s GiB"),
    _("1 core and %(gib_number)s GiB"),
    _("%(number)s cores and %(gib_number)s GiB"),
    _("%(number)s workers at once, each with %(one_words)s on one node"),
    _("%(one_words)s on one node"),
    "%(gpus)s",
    _("%(number)s half-free GPU, none whole"),
    _("%(number)s half-free GPUs, none whole"),
    _("%(number)s partly free GPU, none whole"),
    _("%(number)s partly free GPUs, none whole"),
    _("%(whole_number)s whole and %(number)s half-free GPU"),
    _("%(whole_number)s whole and %(number)s half-free GPUs"),
    _("%(whole_number)s whole and %(number)s partly free GPU"),
    _("%(whole_number)s whole and %(number)s partly free GPUs"),
    _("at most %(number)s of a GPU is free"),
    _("none is free"),
    _("no GPU is free"),
    _("%(number)s is free"),
    _("%(number)s are free"),
    _("%(gpus)s is free"),
    _("%(gpus)s are free"),
    _("%(number)s are free, at most %(most_number)s on one node"),
    _("%(free_words)s, and %(number)s more is kept for %(whom_words)s"),
    _("%(free_words)s, and %(number)s more are kept for %(whom_words)s"),
    _("%(free_words)s, and %(number)s more are kept: %(whom_list)s"),
    _("%(number)s for %(whom_words)s"),
    _("it, until the rest of its place is free"),
    _("a job of %(team)s, until the rest of its place is free"),
    _("%(team)s's notebooks, for %(span)s after it was won back"),
    _("%(team)s's next job, for %(span)s after its last one"),
    _("notebooks"),
    _("guarantees"),
    _("a notebook"),
    _("a borrowing job of another team"),
    _("a job of another team"),
    _("%(number)s borrowing jobs of other teams"),
    _("%(number)s jobs of other teams"),
    _("%(number)s more"),
    _("%(job)s (yours)"),
    _("pool %(pool)s"),
    _("pools %(pool_names)s"),
    _("%(first_words)s; %(other_words)s"),
    _("%(node)s takes nothing new"),
    _("%(node)s is away"),
    _("%(node)s is fenced by an admin"),
    _("%(node)s takes nothing new: an admin cordoned it"),
    _("%(node)s takes nothing new: its cluster cordoned it"),
    _("%(node)s takes nothing new: the cloud takes it back at %(time)s UTC"),
    _("%(number)s more of its nodes take nothing new either"),
    _("%(team)s may not borrow"),
    _("this job may not borrow"),
    _("GPU %(index_names)s of %(node)s"),
    _("it"),
    _("has finished"),
    _("has failed"),
    _("was cancelled"),
    _("was returned"),
    _("was hibernated"),
    _("has ended"),
    _("January"),
    _("February"),
    _("March"),
    _("April"),
    _("May"),
    _("June"),
    _("July"),
    _("August"),
    _("September"),
    _("October"),
    _("November"),
    _("December"),
    _("%(number)s GPU-hours"),
    "%(number)s %(currency)s",
    "%(number)s",
)
