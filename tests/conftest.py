"""Long stories first, and a second try for tests that wait for programs which are not ours.

Files go to whichever process is free, in the order of the collection. A story of a minute that came
last would be played by one process while the others have nothing left to do.

A browser, a hub or a kubelet is at times late on a busy machine. What fails once and then passes is
printed as a rerun at the end, with its traceback; what fails twice is a failure. Tests of our own
code alone get one try.
"""

from pathlib import Path

import pytest

OF_OTHER_PROGRAMS = ("ui", "hub", "kubernetes")
#: Files of at least ten seconds, the longest first.
LONG = ("ui", "test_project.py", "integration", "examples", "properties", "kubernetes", "contracts")
_HERE = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.get_closest_marker(name) for name in OF_OTHER_PROGRAMS):
            item.add_marker(pytest.mark.flaky(reruns=1))
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    part = item.path.relative_to(_HERE).parts[0]
    return LONG.index(part) if part in LONG else len(LONG)
