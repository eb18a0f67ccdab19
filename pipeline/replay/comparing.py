"""`redactory diff`, without its printing."""

from pathlib import Path

from pipeline.replay.difference import Declared, Found, all_differences, first_difference
from pipeline.replay.masked import MaskedText
from pipeline.replay.opening import Source, new_file
from pipeline.replay.page import page
from redactors.engine import masks_of


def compare(
    source: Source,
    other_source: Source,
    run_ids: tuple[str, str],
    declared: Declared,
    html: Path | None,
    *,
    every: bool,
) -> list[Found]:
    """The first difference of two runs, or all; writes the page of both to `html`."""
    replayer = source.replayer()
    others = replayer if other_source is source else other_source.replayer()
    one, other = replayer.archive.run(run_ids[0]), others.archive.run(run_ids[1])
    # Whose key is gone is compared all the same, by what stands there.
    texts = MaskedText(masks_of(replayer.archive.ruleset_of(one), replayer.keys), replayer.keys)
    if html is not None:
        text = page(one, other, all_differences(one, other, texts, declared))
        new_file(replayer, html, [one, other], lambda file: file.write(text.encode()))
    if every:
        return list(all_differences(one, other, texts, declared))
    first = first_difference(one, other, texts, declared)
    return [first] if first is not None else []
