"""Makes from an exact pattern the patterns that hyperscan scans for: looser, and much cheaper.

A scan only has to say where an exact match may end, or (the screen, over raw JSON) that there may
be one at all; RE2 then decides.  So a looser pattern may find too much, never too little:

- an alternation at the head becomes patterns of its own, each with a literal to search for;
- what may be missing at either end is dropped, what may be repeated there is taken once;
- counts in the middle are widened, never shortened.

Over raw JSON a character may be escaped, or stand for the border between a key and its value;
`raw_patterns` rewrites every class for that.
"""

from typing import Final

from redactors.pattern import (
    ALL,
    EMPTY,
    NEWLINE,
    WORD,
    Anchor,
    Bytes,
    Choice,
    Node,
    Repeat,
    Sequence,
    is_nullable,
    joined,
    literal,
    mask_of,
    parse,
    render,
)

MAX_BRANCHES: Final = 256

_SPACE_BYTE: Final = mask_of(b" ")
_CONTROL: Final = mask_of(range(32)) | mask_of([127])
_HIGH: Final = ALL & ~mask_of(range(128))
_QUOTING: Final = mask_of(b'"\\')
_ESCAPED: Final = {ord('"'): '"', ord("\\"): "\\", 10: "n", 13: "r", 9: "t", 8: "b", 12: "f"}
_BACKSLASHES: Final = Repeat(Bytes(mask_of(b"\\")), 1, None)
_ANY_BACKSLASHES: Final = Repeat(Bytes(mask_of(b"\\")), 0, None)
_HEX: Final = Bytes(mask_of(b"0123456789abcdefABCDEF"))
_QUOTE: Final = literal('"')
_GAP: Final = Repeat(Bytes(mask_of(b" \t\r\n")), 0, None)
_UNICODE: Final = joined([_BACKSLASHES, literal("u"), Repeat(_HEX, 4, 4)])
_SHORT: Final = joined([_BACKSLASHES, Bytes(mask_of(b'"\\/nrtbf'))])
# A value's start in raw JSON: after its opening quote, or in a list any distance after that.
_VALUE_START: Final = joined(
    [_GAP, Repeat(joined([literal("["), Repeat(Bytes(ALL), 0, None)]), 0, 1),
     Repeat(joined([_ANY_BACKSLASHES, _QUOTE]), 0, 1)]
)  # fmt: skip
_KEY_END: Final = joined([_ANY_BACKSLASHES, _QUOTE, _GAP])


def decoded_patterns(pattern: str, rule_id: str) -> list[str]:
    """What to scan decoded text for: a match of `pattern` holds one of these that ends in it."""
    return [render(_ends_trimmed(branch)) for branch in _branches(parse(pattern, rule_id))]


def raw_patterns(pattern: str, rule_id: str) -> list[str]:
    """What to scan raw JSON for: there if `pattern` matches in any text of the document."""
    return [raw_pattern(branch) for branch in _branches(parse(pattern, rule_id))]


def raw_pattern(tree: Node) -> str:
    """One tree of exact syntax as a pattern over raw JSON."""
    trimmed = _ends_trimmed(tree)
    items = list(trimmed.items) if isinstance(trimmed, Sequence) else [trimmed]
    crosses = _may_match(trimmed, NEWLINE)
    return render(joined(_raw_sequence(items, crosses)))


def _branches(tree: Node) -> list[Node]:
    """`tree` split at the choices it starts with, as far as that stays small."""
    branches = [tree]
    while True:
        split = [piece for branch in branches for piece in _split_head(branch)]
        if len(split) == len(branches) or len(split) > MAX_BRANCHES:
            return branches
        branches = split


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
    items: list[Node] = list(tree.items) if isinstance(tree, Sequence) else [tree]
    return joined(_widened(_tail_trimmed(_head_trimmed(items))))


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
    match node:
        case Anchor():
            return True
        case Sequence(items):
            return any(map(_has_anchor, items))
        case Choice(options):
            return any(map(_has_anchor, options))
        case Repeat(item):
            return _has_anchor(item)
        case _:
            return False


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


def _may_match(node: Node, mask: int) -> bool:
    """Whether some byte of `mask` can be part of a match of `node`."""
    match node:
        case Bytes(own):
            return bool(own & mask)
        case Sequence(items):
            return any(_may_match(item, mask) for item in items)
        case Choice(options):
            return any(_may_match(option, mask) for option in options)
        case Repeat(item):
            return _may_match(item, mask)
        case Anchor():
            return False


def _raw_sequence(items: list[Node], crosses: bool) -> list[Node]:
    """The items of a sequence over raw JSON; `crosses`: it may reach from a key into its value."""
    raw: list[Node] = []
    after_high = False
    for at, item in enumerate(items):
        if isinstance(item, Anchor):
            raw.append(_raw_anchor(item, at, items))
            continue
        rewritten = _raw(item, crosses)
        # One `\\uXXXX` stands for up to three bytes: the later ones need nothing of their own.
        high = _may_match(item, _HIGH)
        if high and after_high:
            rewritten = Repeat(rewritten, 0, 1)
        after_high = high
        raw.append(rewritten)
    return raw


def _raw_anchor(anchor: Anchor, at: int, items: list[Node]) -> Node:
    """An anchor over raw JSON, where an escape's letter may stand beside the place it marks."""
    first, last = at == 0, at == len(items) - 1
    if anchor.kind == "\\b" and first:
        return Choice((anchor, _SHORT, _UNICODE))
    if anchor.kind == "\\b" and last and not _may_match(items[at - 1], ALL & ~WORD):
        return anchor
    return EMPTY


def _raw(node: Node, crosses: bool) -> Node:
    match node:
        case Bytes(mask):
            return _raw_bytes(mask, crosses)
        case Sequence(items):
            return joined(_raw_sequence(list(items), crosses))
        case Choice(options):
            return Choice(tuple(_raw(option, crosses) for option in options))
        case Repeat(item, low, high):
            least = low
            if _may_match(item, _HIGH):
                least = -(-low // 3)
            if crosses and least > 1 and _may_match(item, NEWLINE):
                least -= 1
            return Repeat(_raw(item, crosses), least, high)
        case Anchor():
            return EMPTY


def _raw_bytes(mask: int, crosses: bool) -> Node:
    """A byte of the decoded text as it may stand in raw JSON."""
    options: list[Node] = []
    plain = mask & ~(_QUOTING | _CONTROL)
    if plain:
        options.append(Bytes(plain))
    letters = mask_of(ord(letter) for byte, letter in _ESCAPED.items() if mask >> byte & 1)
    if letters:
        options.append(joined([_BACKSLASHES, Bytes(letters)]))
    if mask & (_HIGH | _CONTROL):
        options.append(_UNICODE)
    if crosses and mask & NEWLINE:
        options.append(_KEY_END)
    if crosses and mask & _SPACE_BYTE:
        options.append(_VALUE_START)
    return options[0] if len(options) == 1 else Choice(tuple(options))
