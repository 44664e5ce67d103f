"""What a run reports, as plain bodies: the scheduler checks them."""

from __future__ import annotations

from typing import Any


class _Body:
    """Named values."""

    def __init__(self, **values: Any) -> None:
        self.values = values


class ProgressReport(_Body):
    """How far a run is."""


class LoadingReport:
    """What was measured of its data loader."""

    @staticmethod
    def model_validate(measured: dict[str, Any]) -> dict[str, Any]:
        """As it is: a part of another body."""
        return measured


class CheckpointReport(_Body):
    """A checkpoint's receipt."""
