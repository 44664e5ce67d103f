"""States of jobs, notebooks and nodes, and how GPUs are held, in the words of every screen: the panel, the pages, the command line."""

from __future__ import annotations

from collections.abc import Mapping

#: The panel's own table (``text/messages.ts``) says the same.
JOB_WORDS: Mapping[str, str] = {
    "queued": "waiting",
    "nominated": "next, making room",
    "admitted": "starting",
    "starting": "starting",
    "running": "running",
    "preempting": "stopping",
    "pausing": "pausing",
    "paused": "paused",
    "cancelling": "cancelling",
    "cancelled": "cancelled",
    "succeeded": "finished",
    "failed": "failed",
}
#: Of a job that is stopped, by the cause of the stop.
STOPPING_WORDS: Mapping[str, str] = {
    "reclaim": "stopping for others",
    "preempt": "stopping for others",
    "resize": "stopping for others",
    "move": "stopping, to go on elsewhere",
    "grow": "stopping, to go on with another number of workers",
    "drill": "stopping for a test",
    "spot": "stopping, its node is taken back",
}
LEASE_WORDS: Mapping[str, str] = {
    "waiting": "in line",
    "granted": "starting",
    # Its server was started: whether it answers by now is the hub's to say.
    "active": "started",
    "warned": "idle, about to be returned",
    "parking": "being parked",
    "parked": "parked",
    "released": "returned",
    "hibernating": "stopping, kernels are being saved",
    "hibernated": "hibernated",
    "ended": "ended",
}
#: Of one run of a job; those it shares with a job bear the same word.
ATTEMPT_WORDS: Mapping[str, str] = {
    "reserved": "starting",
    "starting": "starting",
    "running": "running",
    "stopping": "stopping",
    "ended": "ended",
}
#: Of a machine.
NODE_WORDS: Mapping[str, str] = {
    "ready": "ready",
    "cordoned": "takes nothing new",
    "lost": "not heard of",
    "fenced": "fenced",
}
#: Under which quota somebody holds GPUs.
HOLD_CLASS_WORDS: Mapping[str, str] = {
    "fixed": "fixed quota",
    "guaranteed": "guaranteed",
    "over-quota": "borrowed",
    "cpu": "no GPU",
}
#: What a part of a GPU is held for, in the order of a legend.
HELD_WORDS: Mapping[str, str] = {
    "notebook": "notebook",
    "notebook-idle": "notebook, idle",
    "guaranteed": "guaranteed training",
    "borrowed": "borrowed",
}
#: What became of who is over, as the end of a sentence.
ENDED_WORDS: Mapping[str, str] = {
    "succeeded": "has finished",
    "failed": "has failed",
    "cancelled": "was cancelled",
    "released": "was returned",
    "hibernated": "was hibernated",
    "ended": "has ended",
}


def state_words(state: str) -> str:
    """The word for a state of either; a state of a newer scheduler is its own word."""
    return JOB_WORDS.get(state) or LEASE_WORDS.get(state) or state


def job_words(state: str, stop_why: str | None) -> str:
    """The word for a state of a job; of one that is stopped, with the cause where that is a short word."""
    return (STOPPING_WORDS.get(stop_why or "") if state == "preempting" else None) or state_words(
        state
    )


def attempt_words(state: str) -> str:
    """The word for a state of an attempt."""
    return ATTEMPT_WORDS.get(state, state)


def node_words(state: str) -> str:
    """The word for a state of a node."""
    return NODE_WORDS.get(state, state)


def hold_class_words(hold_class: str | None) -> str:
    """The word for the quota under which something is held; empty where it holds nothing."""
    return HOLD_CLASS_WORDS.get(hold_class or "", hold_class or "")


def held_words(shown_as: str) -> str:
    """What a part of a GPU is held for."""
    return HELD_WORDS.get(shown_as, shown_as)


def ended_words(state: str) -> str:
    """What became of who is over: ``has finished``, ``was cancelled``."""
    return ENDED_WORDS.get(state) or f"is {state_words(state)}"
