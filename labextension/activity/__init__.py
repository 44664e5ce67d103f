"""What a notebook server does right now, as the culler wants to know it.

Nothing here decides whether that is too little.
Read `collector` first, then `process_load`.
"""
