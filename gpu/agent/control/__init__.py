"""The agent's loop and its sockets: who asks, what is answered, the metrics of a node.

No caller waits for another, and nothing here looks at a device.
Read `sampling_loop` first, then `requests`.
"""
