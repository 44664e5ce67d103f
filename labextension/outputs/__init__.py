"""What cells print while no page of theirs is there to show it: kept, and given to the next page.

Jupyter keeps such messages for the one page that was there last. Everything here is for any other
page: one that was loaded anew, or another browser. What a page shows by itself is left to it.
Read `cell_run` first, then `cell_runs` and `listening`.
"""
