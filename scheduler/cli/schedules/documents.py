"""``schedule.yaml``: a schedule with the fields of the API, its job written like one of a file of its own."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.present import say
from gpucommons.scheduler.cli.submit.snapshot_exclusions import told
from gpucommons.scheduler.client.documents.jobs import Bounds, request_of_mapping
from gpucommons.scheduler.client.documents.mappings import mapping_in, read_content
from gpucommons.scheduler.client.snapshot import Packed
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.text.yaml_errors import field_sentences


def read_schedule(
    path: Path, *, max_bytes: int
) -> tuple[str, models.ScheduleRequest, Packed | None]:
    """Its name, the request, and the folder that goes along, which is said.

    Raises
    ------
    BadRequest
        With what is wrong in the file.
    """
    content = read_content(path)
    document = mapping_in(content, path, of="name, schedule, triggers and job")
    packed = None
    if isinstance(job := document.get("job"), dict):
        where = f"{path}: job"
        bounds = Bounds(max_bytes=max_bytes)
        runs, request, packed = request_of_mapping(
            path, job, where=where, at=("job",), bounds=bounds
        )
        if runs is not None and packed is not None:
            say(*told(packed, runs, request))
        document["job"] = request
    name = document.pop("name", None)
    if not isinstance(name, str):
        message = f"{path}: name is missing: what the schedule is called."
        raise BadRequest(message)
    try:
        return name, models.ScheduleRequest.model_validate(document), packed
    except ValidationError as error:
        message = f"{path}: {field_sentences(content, error, also=('name',))}"
        raise BadRequest(message) from None
