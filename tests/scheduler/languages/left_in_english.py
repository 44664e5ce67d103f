"""What of a page is still English where it is to be German."""

from __future__ import annotations

import re
from html import unescape

from deploy.translations.catalogues import PAGES, forms


def left_in_english(page: str) -> set[str]:
    """Its texts that the catalogue has in other words, but for what is marked as English."""
    return _texts(page) & _english()


def _texts(page: str) -> set[str]:
    """What people read of it."""
    page = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    page = re.sub(r'<(\w+)[^>]* lang="en"[^>]*>.*?</\1>', "", page, flags=re.DOTALL)
    found = re.findall(r">([^<]+)<", page)
    found += re.findall(r'\b(?:title|aria-label|data-label|placeholder)="([^"]+)"', page)
    return {unescape(text).strip() for text in found}


def _english() -> set[str]:
    """All that is said otherwise in German."""
    return {
        text.replace("%%", "%")
        for message in PAGES.read("de")
        if message.id
        for text, translated in zip(forms(message.id), forms(message.string), strict=True)
        if text != translated
    }
