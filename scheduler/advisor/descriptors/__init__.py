"""From what people have (a configuration, a summary, a module) to a description in numbers.

What a description cannot be made of is *unknown*, with the reason: never a guess.
"""
