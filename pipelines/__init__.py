"""Models. Each turns (recipe, seed, boundary) into frames.

Belongs here: the seam (base.py), the frame arithmetic, the catalogue of models, one package per
model family, and what attaches to a model from outside (flowcache/).
Does not belong here: keys, files of the library, jobs, anything that knows `studio` or `reuse`.
"""
