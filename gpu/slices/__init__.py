"""A share of a device: its size, its processes, its use, and what happens when it uses too much.

How a share is enforced is the providers' business.
Read `slices` first, then `usage`.
"""
