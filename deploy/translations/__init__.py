"""Catalogues of translated texts: found in the sources, kept as PO files, shipped as JSON.

Lives here: which texts there are (``catalogues``), and the command that brings the files up to
date. May not live here: anything that the product imports. Read first: ``catalogues``.
"""
