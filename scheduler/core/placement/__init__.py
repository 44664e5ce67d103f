"""Where workers go: the best place of one worker, all places of a gang, and how places are given
or promised.

Who has to be stopped for a place is decided above, in `eviction`; whoever is promised one has them
told here. Read `placement` first, then `admission`.
"""
