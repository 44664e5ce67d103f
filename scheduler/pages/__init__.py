"""The pages behind the hub: the ticket, GPU admin, and what they are made of.

They ask the API with the reader's own rights; no rule stands here.
Read `server` first.
"""
