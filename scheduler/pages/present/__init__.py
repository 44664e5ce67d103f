"""What the pages say, decided purely: answers of ``/v1`` in, words and shapes out.

Nothing here knows tornado, HTML or a clock. Handlers ask the scheduler, these modules turn the
answers into frozen values, templates only place them.
"""
