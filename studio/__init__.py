"""The product: what a person does with models and the disk.

Belongs here: recipes, takes, sessions, rendering, history, media, the commands, the page.
Does not belong here: anything that knows a model's insides (pipelines/) or how a file gets to
disk safely (reuse/). The studio imports those two; neither imports the studio.
"""

__version__ = "0.1.0"
