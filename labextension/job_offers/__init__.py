"""*Make it a job?*: a notebook whose cell keeps its GPU busy for long is offered to become a job, once.

When that is, and what may be said of it, is decided here without looking at anything; what is looked at and
asked for that stands in `offering`. What a job needs to run is not here: the form of *Train* knows. Read
`when_to_offer` first.
"""
