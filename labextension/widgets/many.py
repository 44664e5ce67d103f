"""``TrainPanel("train.py").map([...])`` and ``.sweep({...})``: many jobs of what a panel would submit."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from gpucommons.labextension.requests import sentence_of
from gpucommons.labextension.widgets.surroundings import connect
from gpucommons.scheduler.client import calls, sweep_calls
from gpucommons.scheduler.client.snapshot import Packed
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models import JobRequest, SweepRequest, SweepView


class ManyJobs:
    """What a panel does beside one job. Files are packed and sent once, for all of them."""

    _environ: Mapping[str, str] = os.environ

    def packed(self) -> tuple[JobRequest, Packed]:
        """The job of the panel, and its files."""
        raise NotImplementedError

    def map(self, configs: Sequence[Mapping[str, Any]], **options: Any) -> SweepView:
        """Submit one job for each of these: ``[{"lr": 0.1}, {"lr": 0.01}]``; they count as one in line.

        Raises
        ------
        SchedulerError
            With what is wrong; nothing is submitted then.
        """
        if not configs:
            message = "map: the list is empty. Give the values of each job, as in [{'lr': 0.1}]."
            raise BadRequest(message)
        return self._submit_many({"given": [dict(one) for one in configs], **options})

    def sweep(
        self,
        space: Mapping[str, Any],
        *,
        metric: str,
        direction: str = "minimize",
        trials: int = 20,
        **options: Any,
    ) -> SweepView:
        """Search this space for the best ``metric``; ``options`` are fields of a sweep's file.

        Raises
        ------
        SchedulerError
            With what is wrong; nothing is submitted then.
        """
        fields = {
            "space": dict(space),
            "objective": {"metric": metric, "direction": direction},
            "budget": {"trials": trials},
        }
        return self._submit_many({**fields, **options})

    def many(self, ref: str) -> SweepView:
        """Look at a map or a sweep again."""
        with connect(self._environ) as scheduler:
            return scheduler.send(sweep_calls.sweep(ref))

    def _submit_many(self, fields: Mapping[str, Any]) -> SweepView:
        job, packed = self.packed()
        try:
            request = SweepRequest.model_validate({"job": job, **fields})
        except ValidationError as error:
            raise BadRequest(sentence_of(error)) from None
        with connect(self._environ) as scheduler:
            scheduler.send(calls.put_snapshot(packed.sha256, packed.content))
            return scheduler.send(sweep_calls.submit_sweep(request, key=str(uuid.uuid4())))
