"""YAML files that people write: read, checked and packed, the same from a terminal and from JupyterLab.

Nothing is printed and nothing is sent: what goes along is in what is returned.
"""
