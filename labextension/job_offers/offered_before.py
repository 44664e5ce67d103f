"""What was offered to this user before, on any of their servers: kept in a file of theirs."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import BaseModel, ValidationError

from gpucommons.labextension.job_offers.when_to_offer import DAY_MS, Told
from gpucommons.labextension.private_files import write_private

log = logging.getLogger("gpucommons.labextension")

FILE = "job-offers.json"
#: The oldest go first: nobody says so many times no.
_MOST = 1000


class _File(BaseModel):
    #: When, by kernel.
    kernels: dict[str, int] = {}
    #: Whole paths of notebooks.
    refused: list[str] = []


class Memory:
    """Read anew each time: servers of one user share it.

    What cannot be read at the moment (a home folder that is away) is not written either, for what it holds
    stays true.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def read(self) -> Told:
        """All that is known."""
        found = self._read()
        return Told(kernels=found.kernels, refused=frozenset(found.refused))

    def offered(self, kernel_id: str, now_ms: int) -> None:
        """Not again today."""
        found = self._read()
        found.kernels = {k: ms for k, ms in found.kernels.items() if now_ms - ms < DAY_MS}
        found.kernels[kernel_id] = now_ms
        self._write(found)

    def refuse(self, path: str) -> None:
        """Never again for this notebook."""
        found = self._read()
        found.refused = [*(one for one in found.refused if one != path), path][-_MOST:]
        self._write(found)

    def _read(self) -> _File:
        try:
            return _File.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return _File()
        except ValidationError:
            log.exception("which notebooks were offered to become jobs cannot be read")
            return _File()

    def _write(self, found: _File) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self._path, found.model_dump_json())
