"""The messages of what is said of schedules, pipelines and sweeps: of a time, a model, data, a step, a trial.

Placeholders are those of :mod:`~gpucommons.scheduler.languages.core_messages`.
"""

from __future__ import annotations

from gpucommons.scheduler.languages.texts import gettext_noop as _

_DATA = (
    _("The look %(job)s did not end well: %(why_text)s"),
    _("The look %(job)s did not end well: %(why_rest)s"),
    _("The look %(job)s printed nothing: its last line is the version."),
    _("There is no %(path_rest)s for you."),
    _("%(path_rest)s cannot be read: %(why_rest)s."),
    _("It does not answer: %(why_rest)s."),
    _("It answers %(status_rest)s."),
)
_STEPS = (
    _("Waits for %(step)s."),
    _("Needs %(step)s, which failed."),
    _("Needs %(step)s, which was cancelled."),
    _("Needs %(step)s, whose job was refused."),
    _("Needs %(step)s, which is blocked."),
    _("Needs %(step)s, which did not run."),
    _("Runs only where %(step)s fails, and it did not."),
    _("Runs only where one of %(steps_names)s fails, and none did."),
    _("What it reads is being copied."),
    _("%(step)s left no %(path_rest)s. It left nothing."),
    _("%(step)s left no %(path_rest)s. It left %(files_rest)s."),
)
_SWEEPS = (
    _("It was stopped."),
    _("Its time is over."),
    _("Its budget of %(hours)s GPU-hours is used up."),
    _("All its jobs are over."),
    _("All of it was tried."),
    _("All its trials are over."),
    _("The first %(count)s trials came to nothing: %(why_text)s"),
    _("The first %(count)s trials came to nothing: %(why_rest)s"),
    _("It was cancelled."),
    _("It failed."),
    _("Its job is gone."),
    _("It told no %(metric)s that is a number."),
    _("It ended without a word of %(metric)s; it told no metric at all."),
    _("It ended without a word of %(metric)s; what it told: %(metrics_rest)s."),
    _("No trial has told %(metric)s yet; what %(job)s told: %(metrics_rest)s."),
    _(
        "No trial has told %(metric)s yet, and %(job)s no metric at all: a script prints it, as in"
        " “%(same)s 0.93”, or reports it."
    ),
    _(
        "Which parameters matter most is not known: that takes %(least)s trials that told"
        " %(metric)s; %(count)s did."
    ),
    _(
        "Which parameters matter most is not told: that takes %(least)s trials that told"
        " %(metric)s; this sweep has at most %(count)s."
    ),
    _(
        "Which parameters matter most is told once %(least)s trials have told %(metric)s; %(count)s"
        " have so far."
    ),
    _("Not known: %(metric)s was the same in all trials."),
    _(
        "Not known: Optuna works it out, and is not installed where the scheduler runs"
        " (pip install 'gpucommons[sweeps]')."
    ),
)
_TIMES = (
    _("The scheduler did not run at that time"),
    _("The scheduler did not run at that time, and %(late_rest)s later it was too late"),
    _("The scheduler did not run at that time, and then: %(why_rest)s"),
    _("The scheduler came to it only %(late_rest)s later, and %(allowed_rest)s were allowed"),
    _("The run before still went on"),
    _("It was suspended before the run could start"),
    _("Several came together, of which the last one counts"),
    _(
        "Triggers had started %(count)s runs within an hour, as many as they may: look at what starts it"
        " so often"
    ),
)
_MODELS = (
    _("It failed: there is nothing to compare"),
    _("It was cancelled: there is nothing to compare"),
    _("It is forgotten: there is nothing to compare"),
    _("It told no %(metric)s that is a number"),
    _("It ended without a word of %(metric)s; it told no metric at all"),
    _("It ended without a word of %(metric)s; what it told: %(metrics_rest)s"),
    _("%(metric)s %(value)s, the first"),
    _("%(metric)s %(value)s, was %(before)s"),
    _("%(metric)s %(value)s, was %(before)s: %(job)s kept"),
    _("%(metric)s %(value)s: promoted by hand alone"),
    _("%(metric)s %(value)s, the promoted one has %(before)s: promoted by hand alone"),
    _("%(metric)s %(value)s, chosen by %(user)s"),
)
_CAUSES = (
    _("CPU only: %(command_rest)s"),
    _("%(name)s: whole numbers %(low)s to %(high_rest)s"),
    _("%(name)s: %(low)s to %(high_rest)s"),
    _("the output of %(command_rest)s changed"),
    _("%(metric)s %(value)s is below %(below)s"),
    _("%(job)s was cancelled"),
    _("%(job)s finished"),
    _("%(job)s failed"),
    _("%(path_rest)s changed"),
)
#: Whole, from the first letter to the full stop.
SENTENCES = (*_DATA, *_STEPS, *_SWEEPS)
#: Clauses, which pages end, and what happened or runs in a few words.
PHRASES = (*_TIMES, *_MODELS, *_CAUSES)
