"""What is to change in the leaves and keys of a document, as edits of the text it stands in."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from redactors.edits import Edit, Mark, apply, settled
from redactors.finder import Cell
from redactors.masks import Masks
from redactors.ruleset import FieldRule
from redactors.walk import Leaf, place_of, places, pointer, raw_offsets

_FEW: Final = 4  # edits whose places are looked for one by one


class Edited(NamedTuple):
    """A leaf's value, or its key (then `new_key` is what it becomes), with settled edits."""

    leaf: Leaf
    edits: list[Edit]
    new_key: str | None = None

    @property
    def token(self) -> int:
        """What of the document is edited."""
        return self.leaf.token if self.new_key is None else self.leaf.place

    @property
    def text(self) -> str:
        """What it said before."""
        return self.leaf.text if self.new_key is None else self.leaf.key or ""

    @property
    def is_string(self) -> bool:
        """Whether quotes stand around it."""
        return self.new_key is not None or self.leaf.quoted


class Change(NamedTuple):
    """Marks of one leaf or key; `path` is its JSON pointer in the document after all changes."""

    path: str
    marks: tuple[Mark, ...]


class Looking(NamedTuple):
    """A text on its way to stay as it is: what it was, the rule of its field, the edits so far."""

    cell: Cell
    rule: FieldRule | None
    edits: list[Edit]


def declared(edited: Edited, new_keys: Mapping[int, str]) -> Change:
    """What to say of it; `new_keys` are those of the whole document, by their tokens."""
    marks = tuple(mark for edit in edited.edits for mark in edit.marks)
    if edited.new_key is not None:
        marks = tuple(mark._replace(layers=("key", *mark.layers)) for mark in marks)
    return Change(pointer(edited.leaf, new_keys), marks)


def renamed(leaves: Sequence[Leaf], edits_of: Mapping[str, list[Edit]]) -> list[Edited]:
    """The edits of keys, by the key, wherever it stands; no two keys of an object become one."""
    frames = {id(leaf.frame) for leaf in leaves if leaf.key in edits_of}
    taken: dict[int, set[str]] = {frame: set() for frame in frames}
    for leaf in leaves:
        if id(leaf.frame) in frames and leaf.key is not None and leaf.key not in edits_of:
            taken[id(leaf.frame)].add(leaf.key)
    changed = []
    for leaf in leaves:
        if leaf.key is not None and leaf.key in edits_of:
            edits = _apart(leaf.key, edits_of[leaf.key], taken[id(leaf.frame)])
            changed.append(Edited(leaf, settled(edits), apply(leaf.key, edits)))
    return changed


def _apart(key: str, edits: list[Edit], taken: set[str]) -> list[Edit]:
    """`edits` of `key`, its last mask numbered if the new key is taken already."""
    number, last, numbered = 2, edits[-1], edits
    while (new_key := apply(key, numbered)) in taken:
        text = f"{last.text[:-1]}#{number}{last.text[-1:]}"
        numbered, number = [*edits[:-1], last._replace(text=text)], number + 1
    taken.add(new_key)
    return numbered


def reachable(edit: Edit, masks: Masks) -> Edit:
    """`edit` of a key; one that would be dropped keeps a mask, for its value is to be reached."""
    if edit.text:
        return edit
    mark = edit.marks[0]
    return edit._replace(text=masks.plain(mark.label), marks=(mark._replace(action="mask"),))


def in_document(raw: str, position: int, edited: Sequence[Edited]) -> list[Edit]:
    """The edits of leaves and keys as edits of the text `raw`, where their document starts."""
    edits: list[Edit] = []
    for each, (start, end) in zip(edited, _spans(raw, position, edited), strict=True):
        inner = [place for edit in each.edits for place in (edit.start, edit.end)]
        inner = raw_offsets(raw[start:end], each.text, inner)
        for edit, at, to in zip(each.edits, inner[::2], inner[1::2], strict=True):
            put = json.dumps(edit.text)[1:-1] if each.is_string else edit.text
            edits.append(Edit(start + at, start + to, put, edit.marks, lead=edit.lead))
    return edits


def _spans(raw: str, position: int, edited: Sequence[Edited]) -> Iterable[tuple[int, int]]:
    if len(edited) <= _FEW:
        found = [place_of(raw, position, each.text) for each in edited if each.is_string]
        sure = [span for span in found if span is not None]
        if len(sure) == len(edited):
            return sure
    return places(raw, position, [each.token for each in edited])


def in_json(edits: Sequence[Edit]) -> list[Edit]:
    """Edits of a text that is a document itself."""
    return [edit._replace(marks=tuple(map(_json, edit.marks))) for edit in edits]


def deeper(edits: Sequence[Edit]) -> list[Edit]:
    """Edits of a document inside a text: what lies in its own strings is one layer deeper."""
    return [
        edit._replace(marks=tuple(_json(mark) if mark.layers else mark for mark in edit.marks))
        for edit in edits
    ]


def _json(mark: Mark) -> Mark:
    return mark._replace(layers=("json", *mark.layers))
