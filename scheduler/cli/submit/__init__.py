"""``gpucommons submit``: what is typed becomes one request.

Read `command` first; `options` has every option and the field that it fills.
"""
