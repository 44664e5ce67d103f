"""What server and widgets say and derive alike about a request."""

from __future__ import annotations

from pydantic import ValidationError

from gpucommons.scheduler.models.text.field_errors import listed, mistakes, named

#: Time limits that forms offer, in seconds; None is whatever the team's rules allow.
TIME_LIMITS_S: tuple[int | None, ...] = (1800, 3600, 7200, 14_400, 28_800, 86_400, None)
#: A scheduler that does not answer, for who can neither start it nor knows its address.
AWAY = "The GPU scheduler does not answer. Notebooks and jobs that run go on without it."


def sentence_of(error: ValidationError) -> str:
    """What is wrong, field by field, without what was sent (it may be a secret)."""
    found = mistakes(error)
    return listed((f"{named(each['loc']) or 'body'}: {said}" for each, said in found), error)
