"""What threads of the service share: repeating, sleeping, their pulse, and when garbage is collected.

What they do is not known here.
Read `repeating` first.
"""
