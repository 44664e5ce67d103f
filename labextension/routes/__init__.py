"""What a page may ask of the server extension, and who may ask it.

What is done then lies in the modules beside and below this folder.
Read `handlers` first, then `proxy`.
"""
