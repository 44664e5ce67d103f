"""Live process trees are saved to disk and woken later, with CRIU, as an ordinary user.

A tree runs below a PID 1 of ours in namespaces of its own, so that nothing of the machine is in
its image. CRIU runs inside of them with the rights of the tree's own user: whoever changes an image
can only harm themselves. Linux only; elsewhere the ability says no.

Nothing here knows a job or a notebook. ``inside/`` is what runs in the namespaces. Read `tree` first.
"""
