"""What a node can enforce, and what to change so that it can enforce more.

It looks and advises; it changes nothing that lasts.
Read `diagnosis` first.
"""
