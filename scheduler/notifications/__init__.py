"""What people are told by mail and webhook: their choice, the texts, and the two ways out.

Nothing here reads the store or decides who is told: :mod:`gpucommons.scheduler.background_tasks.notifications`
does. Read `preferences` first, then `message_texts`; `smtp` and `webhook` alone talk to the network.
"""
