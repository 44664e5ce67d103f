"""What people are told by mail and webhook: their choice, the texts, the two ways out, and when to try again.

Nothing here reads the store or decides who is told: :mod:`gpucommons.scheduler.background_tasks.notifications`
does, and `background_tasks.notification_delivery` sends. Read `preferences` first, then `message_texts`; `smtp` and
`webhook` alone talk to the network.
"""
