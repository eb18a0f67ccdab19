"""What became of the slices' files: which rows were removed for good, through every rewrite."""

from collections import Counter
from collections.abc import Iterable, Mapping

from pipeline.lake.entries import FileEntry, Rewrite


def swept_rows(rewrites: Iterable[Rewrite]) -> dict[str, int]:
    """Rows that rewrites removed for good, by the file that a slice had written them to.

    A file that a rewrite made stands for the files it was made from.
    """
    made_from: dict[str, tuple[FileEntry, ...]] = {}
    swept: Counter[str] = Counter()
    for rewrite in rewrites:
        origins = _origins(rewrite.removed, made_from)
        if rewrite.added:
            made_from.update({entry.path: origins for entry in rewrite.added})
        else:
            swept.update({entry.path: entry.rows for entry in origins})
    return dict(swept)


def _origins(
    entries: Iterable[FileEntry], made_from: Mapping[str, tuple[FileEntry, ...]]
) -> tuple[FileEntry, ...]:
    return tuple(origin for entry in entries for origin in made_from.get(entry.path, (entry,)))


def unequal_rewrites(rewrites: Iterable[Rewrite]) -> list[Rewrite]:
    """Rewrites that replaced files by others with another number of rows."""
    return [
        rewrite
        for rewrite in rewrites
        if rewrite.added and _rows(rewrite.removed) != _rows(rewrite.added)
    ]


def _rows(entries: Iterable[FileEntry]) -> int:
    return sum(entry.rows for entry in entries)
