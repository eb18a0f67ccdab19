"""Makes from a pattern those that a scan of JSON text looks for: each from a literal on.

Hyperscan finds thousands of literals at once for next to nothing, and looks closer only where one
stands; a pattern without one costs a pass over the text of its own.  So a pattern is cut down to
its most telling literal and what follows, which can only make it match more often.
"""

from typing import Final, NamedTuple

from redactors.boundaries import in_json
from redactors.loosen import branches, shortest
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
    render,
)
from redactors.trees import items_of, leaves

_TELLING: Final = 3.0
_PLACED: Final = 2.0
_NARROW: Final = 70
_EDGE: Final = 2
_TELLING_RUN: Final = 30
_FEW: Final = 6
_ASCII: Final = (1 << 128) - 1
_SOME: Final = 0.6  # what a byte out of a few tells, against one that is given


class Needle(NamedTuple):
    """A pattern to scan for.

    `is_foreign`: no match of it is ASCII; `is_shape`: no literal tells where it may match.
    """

    pattern: str
    is_foreign: bool = False
    is_shape: bool = False


def needles(tree: Node) -> list[Needle]:
    """Patterns of which one is found in JSON text wherever `tree` matches in a leaf or key of it.

    Strings of the JSON text are to be written without escapes.
    """
    found: list[Needle] = []
    for placed in in_json(tree):
        pieces = _pieces(placed)
        if min(map(_heaviest, pieces)) < _PLACED and _is_narrow(placed):
            found.append(Needle(render(_short(shortest(placed))), is_shape=True))
        else:
            found += [Needle(render(shortest(piece)), _is_foreign(piece)) for piece in pieces]
    return list(dict.fromkeys(found))


def _pieces(tree: Node) -> list[Node]:
    """`tree` from its literal on; split at its head where that shows more literals."""
    whole = _from_needle(tree)
    if _weight(items_of(whole)) >= _TELLING:
        return [whole]
    cut = map(_from_needle, branches(tree))
    return list(dict.fromkeys(piece for each in cut for piece in branches(each)))


def _from_needle(tree: Node) -> Node:
    """`tree` from its literal on, if only a boundary, or what may be missing, stands before it."""
    items = items_of(tree)
    for at, item in enumerate(items):
        if not isinstance(item, Anchor) and _weight(items[at:]) >= _TELLING:
            return joined(items[at:])
        if not (is_nullable(item) or longest(item) == 1):
            break
    return tree


def _heaviest(tree: Node) -> float:
    """How telling the best literal in `tree` is."""
    items = items_of(tree)
    return max(_weight(items[at:]) for at in range(len(items)))


def _is_narrow(tree: Node) -> bool:
    """Whether `tree` takes, but for a byte at either end, hardly more than letters and digits.

    Such patterns make one small automaton together; wide ones would make it explode.
    """
    items = list(items_of(tree))
    if _is_edge(items[0]):
        items = items[1:]
    if items and _is_edge(items[-1]):
        items = items[:-1]
    return all(_widest(item) <= _NARROW for item in items)


def _is_edge(node: Node) -> bool:
    width = longest(node)
    return width is not None and width <= _EDGE


def _short(node: Node) -> Node:
    """`node` with its long runs taken as soon as they tell."""
    match node:
        case Repeat(item, low) if low > _TELLING_RUN:
            return Repeat(item, _TELLING_RUN, None)
        case Sequence(items):
            return joined(map(_short, items))
        case Choice(options):
            return Choice(tuple(map(_short, options)))
        case _:
            return node


def _widest(node: Node) -> int:
    return max(
        (each.mask.bit_count() for each in leaves(node) if isinstance(each, Bytes)), default=0
    )


def _weight(items: tuple[Node, ...]) -> float:
    """How telling the literal is with which `items` start."""
    weight = 0.0
    for item in items:
        match item:
            case Anchor():
                continue
            case Bytes(mask) if mask.bit_count() <= _FEW:
                weight += 1 if mask.bit_count() <= 2 else _SOME
            case Choice(options):
                return weight + min(_weight(items_of(option)) for option in options)
            case Repeat(inner, low, high) if low:
                each = _weight(items_of(inner))
                weight += low * each
                if not each or high != low:
                    return weight
            case _:
                return weight
    return weight


def _is_foreign(node: Node) -> bool:
    match node:
        case Bytes(mask):
            return not mask & _ASCII
        case Anchor():
            return False
        case Choice(options):
            return all(map(_is_foreign, options))
        case Sequence(items):
            return any(map(_is_foreign, items))
        case Repeat(item, low, _):
            return low > 0 and _is_foreign(item)
