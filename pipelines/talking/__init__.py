"""The talking starter: drawn faces, made-up voices, its training and its judge.

What belongs here: all that is needed to make the weights in assets/talking/ again and to score
them. What does not: running them for a person; pipelines/infinitetalk/ does that, as for the
published weights.
"""
