"""What the doctor finds can be read on a terminal of any width."""

from __future__ import annotations

from gpucommons.scheduler.cli.doctor import shown

ROWS = [
    ("disk", "ok", "35.9 GiB free", ""),
    (
        "hibernation",
        "advice",
        "This system forbids users what saving a process needs (unshare: Operation not permitted).",
        "Users need namespaces of their own (sysctl user.max_user_namespaces).",
    ),
]


def test_what_fits_is_a_table() -> None:
    assert shown(ROWS, 240).splitlines()[1].split("  ")[0] == "disk"
    assert len(shown(ROWS, 240).splitlines()) == 3


def test_what_does_not_fit_stands_one_below_the_other() -> None:
    assert shown(ROWS, 60) == (
        "disk: ok\n"
        "  35.9 GiB free\n"
        "hibernation: advice\n"
        "  This system forbids users what saving a process needs\n"
        "  (unshare: Operation not permitted).\n"
        "  To enforce more: Users need namespaces of their own\n"
        "  (sysctl user.max_user_namespaces)."
    )
