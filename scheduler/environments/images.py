"""Images of a cluster as environments: the admin's by name, a notebook's own and others by digest.

What a tag leads to changes, so only a digest says what a job runs with: rules hold for the digest that
is stored, and a job that is run again gets the same content.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gpucommons.scheduler.environments.base import Wanted
from gpucommons.scheduler.environments.reading import Environment
from gpucommons.scheduler.errors import Misconfigured

_HOST = r"[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*(?::[0-9]{1,5})?"
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_NAME = rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*"
_TAG = r":[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"@sha256:[0-9a-f]{64}"
_REFERENCE = re.compile(rf"{_NAME}(?:{_TAG})?(?:{_DIGEST})?")
_PINNED = re.compile(rf"{_NAME}{_DIGEST}")
#: Digits of a digest on a screen.
_SHOWN = 12
#: What an old runtime puts before an image that came from a registry.
_PULLED = "docker-pullable://"


class ImageNotKnown(Exception):
    """Which image a notebook runs from cannot be found out; the message says why, for the log."""


#: The image of a user's notebook server, by its digest; raises :class:`ImageNotKnown`.
ImageOfNotebook = Callable[[str, str], str]


def is_pinned(image: str) -> bool:
    """Whether an image is named by a registry's digest alone, so that its content cannot change."""
    return _PINNED.fullmatch(image) is not None


def image_of(images: Mapping[str, str], environment: str, *, any_image: bool) -> str | None:
    """The image of an environment, by those that the admin named; None where there is none of that name.

    One by its digest was allowed when its job was submitted: its notebook may be gone since. A name that was
    taken out is no image of a public registry.
    """
    if environment in images:
        return images[environment]
    may_be_one = bool(environment) and any_image
    return environment if may_be_one or is_pinned(environment) else None


def pinned(image_id: str) -> str | None:
    """The image that a container's status names; None where no registry has it by that digest."""
    image = image_id.removeprefix(_PULLED)
    return image if is_pinned(image) else None


def _nowhere(_user: str, _server: str) -> str:
    raise ImageNotKnown("nobody here sees notebooks")


def of_this_notebook(image: str) -> str:
    """What a choice that was made for somebody is called: ``image lab@sha256:0123…, the one of …``."""
    name, pin, digest = image.partition("@sha256:")
    return f"image {name}{pin}{digest[:_SHOWN]}{'…' if digest else ''}, the one of this notebook"


@dataclass(frozen=True, kw_only=True, slots=True)
class Images:
    """Images of a cluster: those that the admin named, a notebook's own, where allowed any."""

    #: Image by the name of an environment; "" is what a job gets that names none.
    images: Mapping[str, str] = field(default_factory=dict)
    any_image: bool = False
    #: Jobs see their owner's home folder.
    sees_home: bool = False
    of_notebook: ImageOfNotebook = _nowhere
    kind: Literal["folder", "image"] = "image"

    def listed(self, user: str) -> Sequence[Environment]:
        """See the protocol."""
        return [
            Environment(path=name, name=name, python="") for name in sorted(self.images) if name
        ]

    def default(self, user: str, server: str | None) -> str:
        """See the protocol."""
        try:
            return "" if server is None else self.of_notebook(user, server)
        except ImageNotKnown:
            return ""

    def settle(self, user: str, wanted: Wanted) -> str:
        """See the protocol."""
        if wanted.links and not self.sees_home:
            raise Misconfigured(
                "links: jobs do not see home folders here, so nothing can be linked from there."
                " Leave links out, or put the files where jobs can read them."
            )
        asked = wanted.environment
        if not asked and not wanted.is_stored:
            asked = self.default(user, wanted.server)
        if asked in self.images or self._may_be_named(asked, user, wanted):
            return asked
        known = ", ".join(sorted(name for name in self.images if name)) or "none"
        message = f"environment: {self._refused(asked, wanted)}: name one of: {known}."
        raise Misconfigured(message)

    def _may_be_named(self, asked: str, user: str, wanted: Wanted) -> bool:
        if not asked or _REFERENCE.fullmatch(asked) is None:
            return False
        if self.any_image:
            return True
        if not is_pinned(asked):
            return False
        if wanted.is_stored or not wanted.environment or asked in self.images.values():
            return True
        return asked == self.default(user, wanted.server)

    def _refused(self, asked: str, wanted: Wanted) -> str:
        if not asked:
            unknown = (
                "" if wanted.server is None else ", and the image of this notebook is not known"
            )
            return f"There is no default{unknown}"
        if self.any_image:
            return f"{asked!r} is no name of an image (REPO:TAG or REPO@sha256:DIGEST)"
        if is_pinned(asked):
            return f"{asked} is not the image of the notebook that you submit from"
        return f"There is no environment {asked!r} here"

    def same_as(self, settled: str) -> tuple[str, ...]:
        """See the protocol."""
        image = self.images.get(settled, settled)
        if not is_pinned(image):
            return (settled,)
        words = (settled, image, *sorted(n for n, found in self.images.items() if found == image))
        return tuple(dict.fromkeys(words))

    def remarks(self, wanted: Wanted, settled: str) -> list[str]:
        """See the protocol."""
        found = []
        if wanted.joining is not None:
            found.append(
                f"The launcher {wanted.joining.launcher} needs {wanted.joining.text()}: whether the image has it"
                " is not known here. Without it the job fails when it starts."
            )
        if wanted.server is None or wanted.environment or settled:
            return found
        return [
            *found,
            "The image of this notebook could not be found out, so the job runs in the default one"
            f" ({self.images.get('', '')}). Where that lacks something, name another environment.",
        ]
