"""Use cases about jobs that belong together: what people do with them, and a step whose turn has come.

What is next is decided in `scheduler/pipelines`. Read `pipelines` first.
"""
