"""The node agent: one process per machine, which watches slices and keeps them to their size.

It decides about no work: what is opened and closed, the scheduler says.
Read `watch` first, then `control.sampling_loop`.
"""
