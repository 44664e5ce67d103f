"""Long stories first, and a second try for tests that wait for programs which are not ours.

Files go to whichever process is free, in the order of the collection. A story of a minute that came
last would be played by one process while the others have nothing left to do.

A browser, a hub, a kernel or a kubelet is at times late on a busy machine. What fails once and then passes is
printed as a rerun at the end, with its traceback; what fails twice is a failure. Tests of our own
code alone get one try here; `.ci/run` tries a few failures again when nothing else runs, and names them.
"""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import pytest_timeout
from hypothesis import settings
from pytest_asyncio import is_async_test
from ui.browser import end_browser

# All that a collection makes stays to the end: looking for garbage in it took 4 of its 10 seconds.
gc.disable()

# A busy machine is no defect: what may take how long is said by a test's own timeout.
settings.register_profile("ours", deadline=None)
settings.load_profile("ours")

# As in the Makefile: with bytecode forbidden, each of some hundred servers would compile thousands of modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell ignores SIGINT in what it starts in the background, and so would all that tests start: no
# terminal, kernel or command would ever be interrupted. A handler is not inherited by programs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

OF_OTHER_PROGRAMS = ("ui", "hub", "kubernetes", "criu")
#: Below this folder: they wait for kernels, servers and terminals, without a mark that says so.
WITH_PROGRAMS = ("scheduler/executors/local/test_hibernated_jobs.py",)
#: Below this folder: files of a minute and more.
STORIES = {
    "ui/test_product.py",
    "kubernetes/test_tour_kubernetes.py",
    "kubernetes/test_parked_pods.py",
    "kubernetes/executors/test_launchers_in_pods.py",
    "kubernetes/test_replicas.py",
    "frameworks/scripts/test_scripts_go_on.py",
    "frameworks/scripts/test_scripts_find_their_files.py",
}
#: After all that drives a browser or a hub: files of at least ten seconds.
LONG = ("test_project.py", "examples", "properties", "kubernetes", "contracts")
#: Below this folder: where `make test-kubernetes` and `make test-frameworks` look for tests of their mark,
#: which each process would else search among thousands.
APART = {
    "kubernetes": ("kubernetes/", "contracts/test_executor.py"),
    "frameworks": ("frameworks/",),
    "slurm": ("contracts/test_executor.py",),
}
_HERE = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        _check_is_found(item)
        if _waits_for_others(item):
            item.add_marker(pytest.mark.flaky(reruns=1))
    items.sort(key=_turn)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Watch a second try as well: pytest-timeout's clock ends with the first, and it could hang for ever."""
    settings = pytest_timeout._get_item_settings(item)
    if getattr(item, "execution_count", 1) > 1 and settings.timeout:
        item.ihook.pytest_timeout_set_timer(item=item, settings=settings)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """End the browser where the next test is not of the same file and does not use it."""
    try:
        yield
    finally:
        here = nextitem is not None and nextitem.path == item.path
        if not here and not _uses_browser(nextitem) and not _has_another_try(item):
            end_browser()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Where it stops in the middle, what the tests opened is closed by now."""
    end_browser()


def _has_another_try(item: pytest.Item) -> bool:
    """Its module's browser is used again then."""
    failed = any(getattr(item, "_test_failed_statuses", {}).values())
    flaky = item.get_closest_marker("flaky")
    return failed and flaky is not None and getattr(item, "execution_count", 1) == 1


def _uses_browser(item: pytest.Item | None) -> bool:
    return "browser" in getattr(item, "fixturenames", ()) and not is_async_test(item)


def _check_is_found(item: pytest.Item) -> None:
    """No make target would play it, and nobody would miss it."""
    path, marks = _place(item.path), _marks(item)
    for mark, places in APART.items():
        if mark in marks and not path.startswith(places):
            message = (
                f"{item.nodeid} is marked {mark}: these are played in {', '.join(places)} alone."
            )
            raise pytest.UsageError(message)


def _waits_for_others(item: pytest.Item) -> bool:
    path = _place(item.path)
    return not _marks(item).isdisjoint(OF_OTHER_PROGRAMS) or path.startswith(WITH_PROGRAMS)


def _marks(item: pytest.Item) -> set[str]:
    """Looked through once for each question: one by one they were a second of each process."""
    return {mark.name for mark in item.iter_markers()}


def _turn(item: pytest.Item) -> int:
    path = _place(item.path)
    if path in STORIES:
        return 0
    if _waits_for_others(item):
        return 1
    first = path.partition("/")[0]
    return 2 + (LONG.index(first) if first in LONG else len(LONG))


@cache
def _place(path: Path) -> str:
    """Below this folder: asked three times of each of thousands of tests."""
    return path.relative_to(_HERE).as_posix()
