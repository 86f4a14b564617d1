"""The starter model: the drawn scenes it learns from, its codec, its training and its judge.

What belongs here: all that is needed to make the weights in assets/starter/ again and to score
them. What does not: running them for a person; pipelines/skyreels_v2/ does that, as for any
checkpoint in the same layout. Only `codec` is imported when a checkpoint is loaded.
"""
