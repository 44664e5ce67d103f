"""A user's secrets on one machine: small files of their own, one each, below their home.

Only the standard library is imported here: a worker reads them just before its command runs.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

#: Below the home folder.
PLACE = (".gpucommons", "secrets")
#: A secret is a token or password, not a file store.
MAX_SECRET_BYTES = 64 << 10
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def lacking(name: str) -> str:
    """There is none of this name, and what makes it."""
    return f"There is no secret called {name}: make it with `gpucommons secret {name}`."


def is_missing(home: Path, name: str) -> bool:
    """Whether it is known not to be there. No link is followed below ``home``: whoever asks may see
    more than its owner may, and must not tell.
    """
    descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in PLACE:
            below = os.open(part, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def read_secret(home: Path, name: str) -> str:
    """Read one secret of the user's: a regular file of their own that nobody else can read.

    Raises
    ------
    ValueError
        When it is missing, a link, no regular file, somebody else's, open to others, or no text: in a
        sentence, without its place.
    """
    try:
        descriptor = os.open(
            home.joinpath(*PLACE, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        )
    except FileNotFoundError:
        raise ValueError(lacking(name)) from None
    except OSError as error:
        message = f"The secret {name} cannot be read ({error.strerror}): make it anew."
        raise ValueError(message) from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            message = f"The secret {name} must be a regular file of yours with mode 0600."
            raise ValueError(message)
        content = file.read(MAX_SECRET_BYTES)
    try:
        return content.decode()
    except UnicodeDecodeError:
        message = f"The secret {name} is no text."
        raise ValueError(message) from None
