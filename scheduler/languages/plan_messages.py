"""The messages of the advisor's sentences: why there is no plan, and what is said of each.

Placeholders are those of :mod:`~gpucommons.scheduler.languages.core_messages`. Figures of plans stand
beside those of the panel, which writes them as the code does: they are left as they are.
"""

from __future__ import annotations

from gpucommons.scheduler.languages.texts import gettext_noop as _

_DECLINED = (
    _("Can't say yet. Try 2 minutes on one GPU?"),
    _("Can't say yet. No job that was named tells how long its steps take."),
    _("No layout of %(count)s × %(kind_names)s holds this training."),
    _(
        "The shortest of these runs would take %(number)s years, and plans are made for ten at most. Are the"
        " steps, samples and tokens right?"
    ),
    _("There is no GPU to plan for."),
    _("There are no GPUs to plan for."),
    _("A training of no steps needs no plan."),
    _("What %(kind_names)s does in %(precision)s is not in the table."),
    _("What %(kind_names)s (pool %(pool)s) computes per second is not in the table of GPU kinds."),
    _("Pool %(pool)s has no GPUs now."),
    _("Pool %(pool)s mixes kinds of GPUs (%(kinds_names)s): plans would be guesses."),
    _("The deadline is over already. Name a time that is to come."),
    _("A job of one GPU would be refused: %(why_text)s"),
    _("What layers model type '%(type)s' has is not known here."),
    _("What layers a configuration without model type has is not known here."),
    _("The configuration of '%(type)s' lacks %(field)s."),
    _("The configuration of '%(type)s' holds no whole number in '%(field)s'."),
    _("The trace did not end within %(seconds)s s."),
    _("The trace failed (%(why)s)."),
    _("The trace counted no work, so nothing can be said about speed."),
    _("The trace counted no activations, so nothing can be said about memory."),
    _("The summary has no layers: build the model first."),
    _("The summary has layers of no fixed shape: build the model with one."),
    _("More heads or experts are used than there are."),
    _("A batch of %(count)s samples cannot be planned."),
    _("A sequence of %(count)s tokens cannot be planned."),
    _("Adapters of rank %(rank)s cannot be planned."),
    _("Adapters are planned for transformers only."),
)
_SENTENCES_OF_PLANS = (
    _("%(place_words)s; limited by %(limit_words)s."),
    _("This is the first plan."),
    _("This is plan %(place)s."),
    _("It would run %(times)s × as fast as the first plan."),
    _("No layout of so many divides the batch and fits."),
    _(
        "The largest node of %(pool)s has %(gpus)s, and how fast links between nodes are was not measured"
        " here."
    ),
    _("%(pool)s has %(nodes)s nodes with %(gpus)s each."),
    _(
        "%(number)s layouts are not offered, as %(program)s has no arguments for them: weights shared out"
        " (FSDP), every second product recomputed."
    ),
    _(
        "%(number)s layouts are not offered, as %(program)s has no arguments for them: ZeRO-1, whole copies"
        " beside cut layers or stages, interleaved stages."
    ),
    _(
        "The plan decides what the command says, too: %(words_list)s is left out, and its own arguments take"
        " that place."
    ),
    _("Plans are made for 1, 2, 4, 8 … GPUs, for all of a node, and for 2, 4, 8 … and all nodes."),
    _("Plain, %(gpus)s of %(pool)s (%(layout_list)s): %(memory_words)s."),
    _("Plain, %(gpus)s of %(pool)s (%(layout_list)s): %(memory_words)s; %(speed)s."),
    _(
        "The GPUs of pool %(pool)s are simulated: speeds and memory are those of real %(kind_names)s cards,"
        " which are not here."
    ),
    _("The GPUs are simulated: what was said is of real %(kind_names)s cards, what came is not."),
    _(
        "Plans stay on one node of %(pool)s: how fast links between its nodes are was not measured. An admin"
        " can: gpucommons probe %(same_pool)s."
    ),
    _(
        "What was measured of %(pool)s is not reckoned with: %(why_words)s. Plans stay on one node. An admin"
        " can measure anew: gpucommons probe %(same_pool)s."
    ),
    _(
        "%(number)s earlier runs on such GPUs not counted for %(pool)s: by the clock of now they are not over"
        " yet, so how old they are is not known."
    ),
    _("GPUs and links of %(pool)s as measured on %(day)s; plans stay on one node."),
    _("GPUs and links of %(pool)s as measured on %(day)s; %(speed)s between nodes."),
    _(
        "%(name)s says nothing of this training's speed: it told too few steps on real GPUs of these pools,"
        " with the driver that they have now."
    ),
    _("Let its script print each step with a metric, as in `step 10 loss 0.4`, and run it again."),
    _(
        "It ran on %(ran_words)s of %(pool)s, not on the %(count)s of %(other)s that the plan is for: its"
        " speed does not judge the plan."
    ),
    _("The plan said that it %(verdict_words)s, and the GPU's memory was full."),
)
_PLACES = (
    _("Runs shortest of all layouts that fit; its wait is not known"),
    _("Likely done soonest of all layouts that fit"),
    _("Takes the least money of all layouts that fit"),
    _("Takes the least GPU-hours of all layouts that fit"),
    _("None is likely done in time, this one soonest"),
    _("The cheapest that is likely done in time"),
    "%(time_words)s, %(money_words)s",
    _("%(time_words)s, %(money_words)s; its wait is not known"),
    _("Runs as long as the first"),
    _("Runs %(percent)s %% longer than the first"),
    _("Runs %(percent)s %% shorter than the first"),
    _("Likely done at the same time as the first"),
    _("Is done after %(times)s times as long as the first"),
    _("Is likely done after %(times)s times as long as the first"),
    _("Is done %(percent)s %% later than the first"),
    _("Is likely done %(percent)s %% later than the first"),
    _("Is done %(percent)s %% sooner than the first"),
    _("Is likely done %(percent)s %% sooner than the first"),
    _("the same money"),
    _("as many GPU-hours"),
    _("%(percent)s %% more money"),
    _("%(percent)s %% less money"),
    _("%(percent)s %% more GPU-hours"),
    _("%(percent)s %% less GPU-hours"),
)
_LIMITS = (
    _("computation"),
    _("tensor links"),
    _("pipeline bubble"),
    _("data links"),
    _("optimizer"),
    _("data loading"),
    _("what its runs showed"),
)
_LAYOUTS = (
    _("one GPU"),
    _("accumulation × %(count)s"),
    "%(how)s × %(count)s",
    _("attention recomputed"),
    _("every second product recomputed"),
    _("full recompute"),
    _("offload to the host"),
    _("%(layout_list)s on %(count)s × %(kind_names)s of %(pool)s, grade %(grade)s"),
    _("ZeRO-1: the optimizer's state shared out (ZeroRedundancyOptimizer)"),
    _("FSDP with SHARD_GRAD_OP"),
    _("FSDP with FULL_SHARD"),
    _("1 sample at once on each GPU"),
    _("%(count)s samples at once on each GPU"),
    _("%(count)s of these for each optimizer step"),
    _("activation checkpointing: %(what_words)s"),
    _("%(gpus)s of %(pool)s"),
    _("less than a GPU"),
)
_MEMORY = (
    _("fits: %(needed)s of %(there)s GiB (%(parts_list)s)"),
    _("tight: %(needed)s of %(there)s GiB (%(parts_list)s)"),
    _("does not fit: %(needed)s of %(there)s GiB (%(parts_list)s)"),
    _("whether it fits is not known"),
    _("fits"),
    _("tight"),
    _("weights %(gib)s"),
    _("adapters %(gib)s"),
    _("gradients %(gib)s"),
    _("optimizer %(gib)s"),
    _("activations %(gib)s"),
    _("loss head %(gib)s"),
    _("layer at work %(gib)s"),
    _("gathered activations %(gib)s"),
    _("gathered weights %(gib)s"),
    _("allocator %(gib)s"),
    _("context %(gib)s"),
)
_DOUBTS = (
    _("other GPUs were measured (%(kind_names)s)"),
    _("its date lies in the future"),
    _("it was measured more than 30 days ago"),
    _("it names no speed"),
)
_WAITS = (_("none"), _("not known"))
#: Whole, from the first letter to the full stop.
SENTENCES = (*_DECLINED, *_SENTENCES_OF_PLANS)
#: What stands within them.
PHRASES = (*_PLACES, *_LIMITS, *_LAYOUTS, *_MEMORY, *_DOUBTS, *_WAITS)
