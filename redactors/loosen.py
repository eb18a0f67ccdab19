"""Makes from an exact pattern the patterns that hyperscan scans for: looser, and much cheaper.

A scan only has to say where an exact match may end; RE2 then decides.  So a looser pattern may
find too much, never too little:

- an alternation at the head becomes patterns of its own, each with a literal to search for;
- what may be missing at either end is dropped, what may be repeated there is taken once;
- counts in the middle are widened, never shortened.
"""

from typing import Final

from redactors.pattern import (
    Anchor,
    Bytes,
    Choice,
    Node,
    Repeat,
    Sequence,
    is_nullable,
    joined,
    parse,
    render,
)
from redactors.trees import items_of, leaves

MAX_BRANCHES: Final = 256
_TELLING_RUN: Final = 40
_TELLING_LETTERS: Final = 3


def decoded_patterns(pattern: str, rule_id: str) -> list[str]:
    """What to scan decoded text for: a match of `pattern` holds one of these that ends in it."""
    return [render(_ends_trimmed(branch)) for branch in branches(parse(pattern, rule_id))]


def shortest(tree: Node) -> Node:
    """What to scan for to learn whether `tree` matches anywhere: as much of it as tells."""
    return _ends_trimmed(_shortened(tree))


def _shortened(tree: Node) -> Node:
    """`tree` up to a long run after some letters, and of that run as much as tells."""
    items: list[Node] = []
    letters = 0
    for item in items_of(tree):
        if isinstance(item, Repeat) and item.low > _TELLING_RUN and letters >= _TELLING_LETTERS:
            return joined([*items, Repeat(item.item, _TELLING_RUN, _TELLING_RUN)])
        items.append(item)
        letters += _letters(item)
    return tree


def _letters(node: Node) -> int:
    """How many bytes of any match are given, but for their case."""
    match node:
        case Bytes(mask):
            return int(mask.bit_count() <= 2)
        case Anchor():
            return 0
        case Sequence(items):
            return sum(map(_letters, items))
        case Choice(options):
            return min(map(_letters, options))
        case Repeat(item, low, _):
            return low * _letters(item)


def branches(tree: Node) -> list[Node]:
    """`tree` split at the choices it starts with, as far as that stays small."""
    parts = [tree]
    while True:
        split = [piece for part in parts for piece in _split_head(part)]
        if len(split) == len(parts) or len(split) > MAX_BRANCHES:
            return parts
        parts = split


def _split_head(tree: Node) -> list[Node]:
    if isinstance(tree, Choice):
        return list(tree.options)
    if not isinstance(tree, Sequence):
        return [tree]
    at = next((i for i, item in enumerate(tree.items) if not isinstance(item, Anchor)), None)
    if at is None:
        return [tree]
    before, head, rest = tree.items[:at], tree.items[at], tree.items[at + 1 :]
    if isinstance(head, Choice):
        return [joined([*before, option, *rest]) for option in head.options]
    if isinstance(head, Repeat) and (head.low, head.high) == (0, 1) and rest:
        return [joined([*before, head.item, *rest]), joined([*before, *rest])]
    return [tree]


def _ends_trimmed(tree: Node) -> Node:
    return joined(_widened(_tail_trimmed(_head_trimmed(list(items_of(tree))))))


def _head_trimmed(items: list[Node]) -> list[Node]:
    """Without what may be missing at the start; what repeats there is taken as seldom as may be."""
    while len(items) > 1 and not isinstance(items[0], Anchor) and is_nullable(items[0]):
        items = items[1:]
    first = items[0]
    if isinstance(first, Repeat) and first.low > 0:
        items = [Repeat(first.item, first.low, first.low), *items[1:]]
    return items


def _tail_trimmed(items: list[Node]) -> list[Node]:
    """The same for the end; an anchor goes with the repetition before it that was cut."""
    while len(items) > 1 and is_nullable(items[-1]):
        before = items[-2]
        is_cut = isinstance(before, Repeat) and before.high != before.low
        if _has_anchor(items[-1]) and not is_cut:
            break
        items = items[:-1]
    last = items[-1]
    if isinstance(last, Repeat) and last.low > 0:
        items = [*items[:-1], Repeat(last.item, last.low, last.low)]
    return items


def _has_anchor(node: Node) -> bool:
    return any(isinstance(each, Anchor) for each in leaves(node))


def _widened(items: list[Node]) -> list[Node]:
    return [_widen(item) for item in items]


def _widen(node: Node) -> Node:
    """Counts that vary become open; a fixed count stays."""
    match node:
        case Repeat(item, low, high):
            widest = high if high is None or high <= 1 or high == low else None
            return Repeat(_widen(item), low, widest)
        case Sequence(items):
            return joined(_widened(list(items)))
        case Choice(options):
            return Choice(tuple(_widened(list(options))))
        case _:
            return node
