"""A second try for tests that wait for programs which are not ours.

A browser, a hub or a kubelet is at times late on a busy machine. What fails once and then passes is
printed as a rerun at the end, with its traceback; what fails twice is a failure. Tests of our own code alone get one try.
"""

import pytest

OF_OTHER_PROGRAMS = ("ui", "hub", "kubernetes")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.get_closest_marker(name) for name in OF_OTHER_PROGRAMS):
            item.add_marker(pytest.mark.flaky(reruns=1))
