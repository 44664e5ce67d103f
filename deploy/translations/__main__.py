"""``python -m deploy.translations``: brings all catalogues up to date; what Make calls.

New texts come in without a translation, texts that are gone leave, and what the product reads is
written anew. It says what is left to translate.
"""

from __future__ import annotations

import sys

from deploy.translations import catalogues


def main() -> int:
    """Do it, and fail where a translation is missing or wrong."""
    wrong = []
    for texts in catalogues.ALL:
        for language in texts.languages():
            catalog = texts.updated(language)
            texts.po(language).write_bytes(catalogues.po_text(catalog))
            for made, text in texts.made(language).items():
                made.write_text(text, encoding="utf-8")
            path = texts.po(language).relative_to(catalogues.ROOT)
            wrong += [f"{path}: {each}\n" for each in texts.problems(catalog)]
    sys.stderr.write("".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
