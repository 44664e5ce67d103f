"""What an installation lacks, in a sentence: packages come by place, as extras.

``gpucommons`` alone is client and command line. A hub's image, a notebook's and the service's each
bring what runs there, so that none changes more of its base than it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec


class MissingExtra(ImportError):
    """A package that comes with an extra is not installed."""


def missing(package: str, extra: str) -> str:
    """The sentence."""
    return (
        f"The Python package {package} is not installed here. It comes with the extra {extra}:"
        f" pip install 'gpucommons[{extra}]'."
    )


@contextmanager
def coming_with(extra: str) -> Iterator[None]:
    """What is imported here comes with this extra.

    Raises
    ------
    MissingExtra
        When some of it is not there.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in {"", "gpucommons"}:
            raise
        raise MissingExtra(missing(name, extra)) from None


@contextmanager
def program_of(extra: str) -> Iterator[None]:
    """The same for a program, which ends with that sentence instead of a traceback."""
    try:
        with coming_with(extra):
            yield
    except MissingExtra as error:
        raise SystemExit(str(error)) from None


def check_installed(packages: tuple[str, ...], extra: str) -> None:
    """Before other programs are started that need them.

    Raises
    ------
    MissingExtra
        When one is not there.
    """
    with coming_with(extra):
        for package in packages:
            if find_spec(package) is None:
                raise ModuleNotFoundError(name=package)
