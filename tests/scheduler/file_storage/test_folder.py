"""A volume that does not answer, below the storage that lies on it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.file_storage.folder import FolderStorage

ASKED: dict[str, Callable[[FolderStorage], object]] = {
    "read": lambda storage: storage.read("ill/a"),
    "chunks": lambda storage: list(storage.chunks("ill/a")),
    "head": lambda storage: storage.head("ill/a"),
    "below": lambda storage: list(storage.below("ill")),
    "put": lambda storage: storage.put("ill/a", Path(__file__)),
    "delete": lambda storage: storage.delete(["ill/a"]),
}


@pytest.mark.parametrize("asked", ASKED)
def test_a_volume_that_does_not_answer_is_unavailable_and_not_empty(
    tmp_path: Path, asked: str
) -> None:
    storage = FolderStorage(tmp_path)
    # The kernel refuses to go on there, as it does on a volume that is gone.
    (tmp_path / "ill").symlink_to("ill")
    with pytest.raises(Unavailable, match="does not take or give files"):
        ASKED[asked](storage)
