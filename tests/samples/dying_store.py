"""A store whose process dies before or after one of its next writes."""

from __future__ import annotations

from typing import Any

from gpucommons.scheduler.store.memory import MemoryStore


class Dies(BaseException):
    """The scheduler's process ends here."""


def dying(store: MemoryStore, after: int) -> None:
    """Before the call of so many to the store that writes, or right after it."""
    left = [after]
    inner: dict[str, Any] = {"stand": store.sweeps.stand, "put_intent": store.put_intent}

    def call(name: str, *arguments: Any, **named: Any) -> Any:
        if left[0] == 0:
            raise Dies
        left[0] -= 1
        answer = inner[name](*arguments, **named)
        if left[0] == 0:
            raise Dies
        left[0] -= 1
        return answer

    store.sweeps.stand = lambda *a, **n: call("stand", *a, **n)  # type: ignore[method-assign]
    store.put_intent = lambda *a, **n: call("put_intent", *a, **n)  # type: ignore[method-assign]
