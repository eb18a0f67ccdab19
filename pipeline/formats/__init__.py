"""Files of recorded runs, each format in a file of its own, to run events."""

from pipeline.formats.base import AT_IMPORT, Format, Source, open_source, stamped
from pipeline.formats.registry import AUTO, FORMATS, format_named, format_of

__all__ = [
    "AT_IMPORT",
    "AUTO",
    "FORMATS",
    "Format",
    "Source",
    "format_named",
    "format_of",
    "open_source",
    "stamped",
]
