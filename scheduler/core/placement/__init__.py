"""Where workers go: the best place of one worker, all places of a gang, and how places are given
or promised.

Nobody is stopped here.
Read `placement` first, then `admission`.
"""
