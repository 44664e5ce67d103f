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
        template = texts.template()
        for language in texts.languages():
            catalog = texts.updated(language)
            texts.po(language).write_bytes(catalogues.po_text(catalog))
            texts.json(language).write_text(catalogues.json_text(catalog), encoding="utf-8")
            path = texts.po(language).relative_to(catalogues.ROOT)
            wrong += [f"{path}: {each}\n" for each in catalogues.problems(catalog, template)]
    sys.stderr.write("".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
