"""Pictures, videos and sounds as files.

Belongs here: encoding a segment, joining segments by stream copy, decoding, posters, metadata in
result files, exports. Everything that runs ffmpeg.
Does not belong here: which segments make a take, where files live (reuse/), what a model returns.
"""

from studio.media import ffmpeg
from studio.media.decode import decode
from studio.media.encode import CODING, write_segment
from studio.media.errors import DiskFull, MediaError
from studio.media.export import EXPORTS, export
from studio.media.join import check_audio, join
from studio.media.metadata import read_metadata
from studio.media.poster import read_image, webp, write_image, write_poster
from studio.media.probe import VideoInfo, probe

__all__ = [
    "CODING",
    "EXPORTS",
    "DiskFull",
    "MediaError",
    "VideoInfo",
    "check_audio",
    "decode",
    "export",
    "ffmpeg",
    "join",
    "probe",
    "read_image",
    "read_metadata",
    "webp",
    "write_image",
    "write_poster",
    "write_segment",
]
