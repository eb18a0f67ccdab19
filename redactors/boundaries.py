"""What of a match in a leaf, searched as `name\\n: text`, stands in the JSON text it came from.

In JSON the two are written `"name": "text"`.  A pattern that can reach from the name into the text
is split where it crosses; one that starts on the way is entered behind what it took of it.
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
    longest,
    mask_of,
)

_LEAD: Final = b"\n: "
# What JSON has before and after a key, a string or a number.
BEFORE: Final = Bytes(mask_of(b'":,[ \t\r\n'))
AFTER: Final = Bytes(mask_of(b'",}] \t\r\n'))
_SPACES: Final = Repeat(Bytes(mask_of(b" \t\r\n")), 0, None)
COLON: Final = joined([Bytes(mask_of(b'"')), _SPACES, Bytes(mask_of(b":")), _SPACES])
_OPENING: Final = Repeat(Bytes(mask_of(b'"')), 0, 1)
_ARRAY: Final = Bytes(mask_of(b"["))
_NOTHING: Final = Sequence(())


def in_json(tree: Node) -> list[Node]:
    """Patterns of which one is found in the JSON text wherever `tree` matches in a leaf or key.

    Strings of the JSON text are to be written without escapes.
    """
    found = [tree]
    for at in range(len(_LEAD)):  # it starts within the break
        found += [joined([BEFORE, rest]) for rest in _without(tree, _LEAD[at:])]
    for before, after in _splits(tree, _LEAD[0]):  # it starts in the name
        found += [
            joined([before, COLON, Choice((_ARRAY, joined([_OPENING, rest])))])
            for rest in _without(after, _LEAD[1:])
            if longest(before) != 0
        ]
    return [_unanchored(each) for each in found]


def _without(node: Node, data: bytes) -> list[Node]:
    """What may follow in a match of `node` that starts with `data`."""
    rests = [node]
    for byte in data:
        rests = list(
            dict.fromkeys(
                after for rest in rests for before, after in _splits(rest, byte)
                if is_nullable(before)
            )
        )  # fmt: skip
    return rests


def _splits(node: Node, byte: int) -> list[tuple[Node, Node]]:
    """What may stand before and after, for every place in `node` that takes `byte`."""
    match node:
        case Bytes(mask):
            return [(_NOTHING, _NOTHING)] if mask >> byte & 1 else []
        case Anchor():
            return []
        case Choice(options):
            return [split for option in options for split in _splits(option, byte)]
        case Sequence(items):
            return [
                (joined([*items[:at], before]), joined([after, *items[at + 1 :]]))
                for at, item in enumerate(items)
                for before, after in _splits(item, byte)
            ]
        case Repeat(item, _, high):
            more = _NOTHING if high == 1 else Repeat(item, 0, None if high is None else high - 1)
            return [
                (joined([more, before]), joined([after, more]))
                for before, after in _splits(item, byte)
            ]


def _unanchored(node: Node) -> Node:
    """`node` with its ends of a text also where JSON ends a key, a string or a number."""
    match node:
        case Anchor("^" | "\\A"):
            return Choice((Anchor("^"), BEFORE))
        case Anchor("$" | "\\z"):
            return Choice((Anchor("$"), AFTER))
        case Sequence(items):
            return joined(_unanchored(item) for item in items)
        case Choice(options):
            return Choice(tuple(_unanchored(option) for option in options))
        case Repeat(item, low, high):
            return Repeat(_unanchored(item), low, high)
        case _:
            return node
