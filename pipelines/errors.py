"""What a model refuses, in words for the person who asked."""


class BadInput(Exception):
    """A field of the request has a value that cannot be used.

    Carries the name of the field, the value given, and what to do about it.
    """

    def __init__(self, field: str, value: object, fix: str) -> None:
        super().__init__(f"{field}: {_short(value)} cannot be used. {fix}")
        self.field = field
        self.value = value
        self.fix = fix


class ModelMissing(BadInput):
    """The weights of a model are not on this machine."""


def _short(value: object, limit: int = 200) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
