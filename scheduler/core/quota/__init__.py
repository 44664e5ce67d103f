"""What teams hold and may hold: fixed, guaranteed and borrowed quota, its layout on devices, fair share.

Who runs next is not decided here, only what each team may have.
Read `quota` first.
"""
