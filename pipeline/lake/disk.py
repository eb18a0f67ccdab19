"""What the local disk is asked for beyond reading and writing."""

import os
from pathlib import Path


def flush(path: Path) -> None:
    """Brings a file, or the names in a folder, to the disk; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
