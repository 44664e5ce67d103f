"""What a cloud tells a node of itself: that it takes it back, and when. `fake` tells the same for rehearsals.

What becomes of it is not decided here. Read `notices` first.
"""
