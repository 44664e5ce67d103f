"""Who wants to be told what, and messages on their way: the contract, and both stores.

No rule about people stands here. Read `base` first.
"""
