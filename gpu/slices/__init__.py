"""A share of a device: its size, its processes and its use.

How a share is enforced is the providers' business.
Read `slices` first, then `usage`.
"""
