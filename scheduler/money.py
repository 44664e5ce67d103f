"""Money as it is kept and shown: whole millionths of a currency, so that sums of parts are exact."""

from __future__ import annotations

_MICRO = 1_000_000


def to_micro(amount: float) -> int:
    """Of an amount in its currency, as people write it."""
    return round(amount * _MICRO)


def from_micro(micro: int) -> float:
    """The amount in its currency."""
    return micro / _MICRO


def money_words(micro: int, currency: str) -> str:
    """``1,007.84 EUR``."""
    return f"{from_micro(micro):,.2f} {currency}"
