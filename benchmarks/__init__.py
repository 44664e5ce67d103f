"""Benchmarks of the core and of the whole product, each a program that prints its figures.

What they share lies in `results`; tests of behaviour belong into `tests`.
Read `suite` first.
"""
