"""InfiniteTalk: a picture and one or two voices become a talking video, in chained segments.

Of its own making, after the paper (arXiv 2508.14033) and for the published weights: diffusers has
no InfiniteTalk. The defaults are those of the published command line.
"""
