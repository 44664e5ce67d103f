"""Texts of the pages in the language of their reader.

Lives here: gettext's functions, the choice of a language, and the catalogues. May not live here: texts;
each stands where it is shown, in English, and the catalogue holds the others.
Read first: ``texts``.
"""
