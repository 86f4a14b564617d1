"""The disk cache: content-addressed, published by rename, safe for any number of processes.

Here belong keys, hashes of files, the store with its staging, verification and garbage collection.
It knows bytes and tensors. What a recipe is, which model made something and when a take is worth
keeping belong to `studio`; nothing here imports `studio` or `pipelines`, and torch is imported
only by the functions that touch tensors.
"""

from reuse.collect import Collected
from reuse.entry import Entry
from reuse.errors import (
    ABSENT,
    Damaged,
    Difference,
    DiskFull,
    FileChanging,
    FormatTooNew,
    MissingInput,
    NotCompatible,
    NotInLibrary,
    NotWritable,
    ReuseError,
)
from reuse.hashes import Content, FileHashes
from reuse.keys import differences, digest, resolve, segment_id
from reuse.manifest import Fault
from reuse.staging import Staging
from reuse.store import KINDS, Store

__all__ = [
    "ABSENT",
    "KINDS",
    "Collected",
    "Content",
    "Damaged",
    "Difference",
    "DiskFull",
    "Entry",
    "Fault",
    "FileChanging",
    "FileHashes",
    "FormatTooNew",
    "MissingInput",
    "NotCompatible",
    "NotInLibrary",
    "NotWritable",
    "ReuseError",
    "Staging",
    "Store",
    "differences",
    "digest",
    "resolve",
    "segment_id",
]
