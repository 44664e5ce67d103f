"""The routes of `/v1`, a module per noun.

A route reads the request and calls a use case; it decides nothing.
Read `jobs` first.
"""
