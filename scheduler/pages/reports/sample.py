"""Whether somebody asked for the demo's sample data; pages and files say so wherever they show some."""

from __future__ import annotations

from gpucommons.scheduler.pages.base import PageHandler


def is_asked(page: PageHandler) -> bool:
    """By the address alone: nothing is remembered."""
    return page.get_query_argument("sample", "") == "1"
