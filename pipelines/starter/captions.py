"""Captions in the words that people type: synonyms, free order, missing parts, filler."""

from __future__ import annotations

import numpy as np

from .dataset import Scene

COLOUR_WORDS = {
    "red": ("red", "red", "red", "crimson", "scarlet", "bright red", "ruby", "cherry red"),
    "yellow": ("yellow", "yellow", "yellow", "golden", "lemon", "bright yellow", "gold"),
    "blue": ("blue", "blue", "blue", "azure", "navy", "bright blue", "cobalt", "sky blue"),
    "white": ("white", "white", "white", "snow-white", "ivory", "pale", "pearly"),
    "green": ("green", "green", "green", "emerald", "lime", "bright green", "jade"),
    "purple": ("purple", "purple", "purple", "violet", "lilac", "magenta", "lavender"),
}
ACTOR_WORDS = {
    "boat": ("boat", "boat", "ship", "sailboat", "sailing boat", "yacht", "little boat", "vessel"),
    "balloon": ("balloon", "balloon", "hot air balloon", "hot-air balloon", "airship"),
    "bird": ("bird", "bird", "seagull", "gull", "dove", "little bird", "songbird", "crow"),
    "kite": ("kite", "kite", "paper kite", "diamond kite", "little kite", "toy kite"),
}
ACTION_WORDS = {
    "boat": ("sailing", "drifting", "gliding", "moving", "cruising", "floating", "heading"),
    "balloon": ("drifting", "floating", "flying", "gliding", "moving", "hovering", "heading"),
    "bird": ("flying", "gliding", "soaring", "drifting", "flapping", "moving", "going", "heading"),
    "kite": ("flying", "drifting", "floating", "soaring", "dancing", "moving", "going", "heading"),
}
FINITE = {"boat": "sails", "balloon": "floats", "bird": "flies", "kite": "flies"}
DIRECTION_PHRASES = (
    "{d}", "{d}", "{d}", "to the {d}", "to the {d}", "towards the {d}", "{d}wards", "{d}ward",
    "from the {o} to the {d}", "from {o} to {d}", "toward the {d}", "{d}-bound",
)  # fmt: skip
LAND_PHRASES = {
    "sea": (
        "over the sea", "on the sea", "over the ocean", "across the sea", "above the water",
        "over the waves", "at sea", "on the open ocean", "across the blue water", "over a calm sea",
        "above the sea", "over water",
    ),
    "green hills": (
        "over green hills", "over the hills", "above green hills", "over rolling hills",
        "across grassy hills", "over green meadows", "above the green hills", "over grassland",
        "over the countryside", "above green fields",
    ),
    "desert": (
        "over a desert", "over the desert", "across the desert", "above sand dunes",
        "over the dunes",
        "above the desert", "over desert sand", "across sandy dunes", "over the sahara",
    ),
    "snowy mountains": (
        "over snowy mountains", "above snowy mountains", "over mountains", "above the mountains",
        "over the snow-covered mountains", "past snowy peaks", "over white peaks", "above the alps",
        "across the icy mountains", "over snow", "past the mountains",
    ),
}  # fmt: skip
TIME_PHRASES = {
    "dawn": (
        "at dawn", "at dawn", "at sunrise", "in the early morning", "at daybreak", "at first light",
        "in the morning", "as the sun rises", "dawn", "sunrise",
    ),
    "noon": (
        "at noon", "at noon", "at midday", "in the middle of the day", "by day", "on a sunny day",
        "in bright daylight", "under a blue sky", "midday", "in the daytime", "on a clear day",
    ),
    "sunset": (
        "at sunset", "at sunset", "at dusk", "in the evening", "as the sun sets", "at twilight",
        "under an orange sky", "sunset", "in the evening light", "dusk",
    ),
    "night": (
        "at night", "at night", "by night", "at midnight", "under the moon", "in the moonlight",
        "on a dark night", "under the stars", "night", "during the night",
    ),
}  # fmt: skip
OPENERS = (
    "a painting of", "a video of", "an animation of", "a storybook scene of", "a picture of",
    "a short film of", "please show", "cinematic shot of", "illustration:", "we see", "there is",
    "i want to see", "a dreamy view of", "make a video of", "once upon a time,",
)  # fmt: skip
EXTRAS = (
    "slowly", "gently", "calm", "beautiful", "with clouds", "peaceful", "high quality",
    "soft light",
    "in the wind", "storybook style", "4k", "very detailed", "all alone", "clouds drift by",
    "a quiet scene", "smooth motion",
)  # fmt: skip

MISSING_RATE = 0.06  # of each part, in casual captions


def plain_caption(scene: Scene) -> str:
    """The one canonical sentence of a scene."""
    land = {"sea": "the sea", "desert": "a desert"}.get(scene.land, scene.land)
    return f"a {scene.colour} {scene.actor} drifting {scene.direction} over {land} at {scene.time}"


def random_caption(scene: Scene, rng: np.random.Generator) -> tuple[str, tuple[bool, ...]]:
    """A caption of the scene, and which of land, time, actor, colour, direction it says."""
    casual = rng.random() < 0.5
    said = {
        part: not (casual and rng.random() < MISSING_RATE)
        for part in ("land", "time", "actor", "colour", "direction")
    }
    subject = _subject(scene, said, rng)
    movement = _movement(scene, said["direction"], rng)
    land = _pick(LAND_PHRASES[scene.land], rng) if said["land"] else ""
    time = _pick(TIME_PHRASES[scene.time], rng) if said["time"] else ""
    caption = _arrange(subject, movement, land, time, rng)
    return _dress(caption, rng), tuple(said.values())


def drop_words(caption: str, rng: np.random.Generator, rate: float = 0.1) -> str:
    """The caption without some of its words."""
    return " ".join(word for word in caption.split() if rng.random() >= rate)


def _pick(choices, rng):
    return choices[rng.integers(len(choices))]


def _subject(scene, said, rng) -> str:
    noun = _pick(ACTOR_WORDS[scene.actor], rng) if said["actor"] else "something"
    colour = _pick(COLOUR_WORDS[scene.colour], rng) if said["colour"] else ""
    article = _pick(("a", "a", "a", "the", "one", ""), rng)
    words = f"{article} {colour} {noun}"
    if colour and rng.random() < 0.1:
        words = f"{article} {noun}, {colour},"
    return " ".join(words.split())


def _movement(scene, said: bool, rng) -> str:
    verb = FINITE[scene.actor] if rng.random() < 0.25 else _pick(ACTION_WORDS[scene.actor], rng)
    if not said:
        return verb
    other = "left" if scene.direction == "right" else "right"
    where = _pick(DIRECTION_PHRASES, rng).format(d=scene.direction, o=other)
    return where if rng.random() < 0.15 else f"{verb} {where}"


def _arrange(subject, movement, land, time, rng) -> str:
    order = rng.random()
    if order < 0.45:
        parts = [f"{subject} {movement}", land, time]
    elif order < 0.6:
        parts = [f"{time}," if time else "", f"{subject} {movement}", land]
    elif order < 0.72:
        parts = [f"{subject} {movement}", time, land]
    elif order < 0.84:
        parts = [f"{subject} {land}", f"{movement},", time]
    else:  # keywords, in any order
        parts = [f"{part}," for part in (subject, movement, land, time) if part]
        rng.shuffle(parts)
    return " ".join(" ".join(parts).split()).strip(" ,")


def _dress(caption: str, rng) -> str:
    if rng.random() < 0.25:
        caption = f"{_pick(OPENERS, rng)} {caption}"
    if rng.random() < 0.3:
        caption = f"{caption}, {_pick(EXTRAS, rng)}"
    if rng.random() < 0.15:
        caption = f"{_pick(EXTRAS, rng)} {caption}"
    if rng.random() < 0.2:
        caption = caption[:1].upper() + caption[1:]
    elif rng.random() < 0.04:
        caption = caption.upper()
    return caption + "." if rng.random() < 0.2 else caption
