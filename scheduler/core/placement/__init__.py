"""Where workers go: the best place of one worker, all places of a gang, and how a place is given or promised.

Who has to be stopped for a place is decided above, in `eviction`; the stops are announced here, with the promise.
Read `placement` first, then `admission`.
"""
