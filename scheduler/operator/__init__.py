"""Teams and jobs as objects of the cluster: followed, handed to the scheduler, and told what became of them.

A client of the API like any other: it decides nothing.
Read `handlers` first.
"""
