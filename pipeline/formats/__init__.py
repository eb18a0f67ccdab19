"""Files of recorded runs, each format in a file of its own, to run events."""

from pipeline.formats.base import Format, Source, open_source
from pipeline.formats.registry import AUTO, FORMATS, format_named, format_of

__all__ = ["AUTO", "FORMATS", "Format", "Source", "format_named", "format_of", "open_source"]
