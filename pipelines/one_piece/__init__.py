"""Models that make their result in one piece, through diffusers' own pipelines, with the encoders
split off: hooks (parts in place of encoders), watch (progress, cancel, preview), pipeline.

A family that builds on this says what its parts are and what they depend on; nothing of a
`__call__` of diffusers is written again here.
"""
