"""Examines a JSON document or a text, layer by layer, and says what to change in it.

Every text is looked at until a look finds nothing more: what comes out is what a second redaction
would leave alone, whatever the rules are.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Final

from redactors.actions import opaque, treat, whole
from redactors.assignments import assignments
from redactors.compiled import (
    BASE64,
    FLAG,
    HIDDEN,
    MEMORY,
    NAMED,
    OBJECT,
    PERCENT,
    Compiled,
)
from redactors.edits import Edit, Mark, apply, compose, settled
from redactors.encoded import Run, encoded, inflated, is_compressed, is_file, readable, runs
from redactors.errors import Unexaminable
from redactors.finder import Cell, Finder, Found, in_text
from redactors.layers import views
from redactors.masks import Masks
from redactors.memory import RunMemory
from redactors.overlaps import Finding, resolve
from redactors.ruleset import FieldRule
from redactors.walk import Leaf, NotJson, pointer, raw_offsets, walk, walk_from

MAX_DEPTH: Final = 16
"""Layers inside layers: JSON text in a string, base64 in that, and so on."""

MAX_LOOKS: Final = 8
"""How often a text is looked at again after masking, before it is masked whole."""


@dataclass(frozen=True, slots=True)
class Edited:
    """A leaf's value, or its key (then `new_key` is what it becomes), with settled edits."""

    leaf: Leaf
    edits: list[Edit]
    new_key: str | None = None

    @property
    def start(self) -> int:
        """Where what is edited starts in the document."""
        return self.leaf.start if self.new_key is None else self.leaf.place


@dataclass(frozen=True, slots=True)
class Change:
    """Marks of one leaf or key; `path` is its JSON pointer in the document after all changes."""

    path: str
    marks: tuple[Mark, ...]


class Examination:
    """One look through one payload under a compiled ruleset; what fields show goes to `memory`."""

    def __init__(self, compiled: Compiled, masks: Masks, memory: RunMemory) -> None:
        self._compiled, self._masks, self._memory = compiled, masks, memory
        self._finder = Finder(compiled, masks, memory)

    def document(self, raw: str) -> tuple[list[Edit], list[Change]]:
        """The edits of the JSON text `raw`, and what they change; in order of place."""
        try:
            leaves = walk(raw, self._compiled.roles)
        except NotJson:
            raise Unexaminable("not-json") from None
        known = self._memory.version
        edited, renamed = self._leaves(raw, leaves, 0)
        if self._memory.repeats(raw, known):  # what a field showed may stand before it, too
            edited, renamed = self._leaves(raw, leaves, 0)
        if self._compiled.kept:
            edited = [each for each in edited if not self._is_kept(raw, each, renamed)]
        changes = []
        for each in edited:
            marks = tuple(mark for edit in each.edits for mark in edit.marks)
            if each.new_key is not None:
                marks = tuple(replace(m, layers=("key", *m.layers)) for m in marks)
            changes.append(Change(pointer(raw, each.leaf, renamed), marks))
        return _in_document(raw, edited), changes

    def _is_kept(self, raw: str, edited: Edited, renamed: Mapping[int, str]) -> bool:
        """Whether a scope keeps the value as it is; what a rule for secrets finds is never kept."""
        if edited.new_key is not None:
            return False
        if any(m.rule in self._compiled.secret_rules for e in edited.edits for m in e.marks):
            return False
        return self._compiled.kept.cover(pointer(raw, edited.leaf, renamed))

    def text(self, text: str) -> list[Edit]:
        """The edits of a text that stands alone."""
        known = self._memory.version
        edits = self._whole_text(text)
        return self._whole_text(text) if self._memory.repeats(text, known) else edits

    def secrets_among(self, texts: Sequence[str]) -> set[int]:
        """The indexes of the texts in which a rule for secrets finds something, by one scan."""
        found = self._finder.find([Cell("", text) for text in texts])
        return {index for index, each in found.items() if self._holds_secret(each)}

    def _holds_secret(self, found: Found) -> bool:
        findings = [*found.findings, *self._assigned(found)]
        return any(f.rule.kind == "secret" and f.rule.action != "keep" for f in findings)

    def _whole_text(self, text: str) -> list[Edit]:
        cell = Cell("", text, "")
        edits = self._look_again(cell, None, 0)
        return settled(self._settle(cell, edits, 0)) if edits else []

    def _leaves(
        self, raw: str, leaves: list[Leaf], depth: int
    ) -> tuple[list[Edited], dict[int, str]]:
        """What to change in the leaves and keys, and the new keys by where they start."""
        if depth > MAX_DEPTH:
            raise Unexaminable("too-deep")
        edited: list[Edited] = []
        open_leaves: list[Leaf] = []
        for leaf in leaves:
            if not leaf.text:
                continue
            edits = leaf.rule and self._by_field(leaf.text, leaf.quoted, leaf.rule)
            if edits is None and leaf.quoted:
                edits = self._nested(leaf.text, depth)
                edits = edits and self._settle(Cell(leaf.name, leaf.text), edits, depth, leaf.rule)
            if edits is None:
                open_leaves.append(leaf)
            elif edits:
                edited.append(Edited(leaf, settled(edits)))
        cells = [Cell(leaf.name, leaf.text, self._path(raw, leaf, depth)) for leaf in open_leaves]
        keys = list(dict.fromkeys(leaf.key for leaf in leaves if leaf.key))
        found = self._finder.find([*cells, *(Cell("", key) for key in keys)])
        if not found:
            return edited, {}
        of_keys = {key: found[i] for i, key in enumerate(keys, len(cells)) if i in found}
        renamed = self._renamed(leaves, of_keys, depth) if of_keys else []
        new_keys = {each.leaf.place: each.new_key or "" for each in renamed}
        for index, leaf in enumerate(open_leaves):
            name = leaf.name
            if leaf.key == name:
                name = new_keys.get(leaf.place, name)
            if index in found or name != leaf.name:
                edits = self._look(leaf.text, found.get(index), depth)
                if not edits and name == leaf.name:
                    continue  # nothing has changed that a second look could see
                edits = self._settle(cells[index]._replace(name=name), edits, depth, leaf.rule)
                if edits:
                    edited.append(Edited(leaf, self._of_leaf(leaf, edits)))
        ordered = sorted([*edited, *renamed], key=lambda e: e.start)
        return ordered, new_keys

    def _path(self, raw: str, leaf: Leaf, depth: int) -> str | None:
        """Where prose may stand in `leaf`, as far as a recogniser asks."""
        recognizers = self._compiled.recognizers
        if recognizers is None or not leaf.quoted:
            return None
        return pointer(raw, leaf, {}) if recognizers.need_paths and depth == 0 else ""

    def _by_field(self, text: str, quoted: bool, rule: FieldRule) -> list[Edit] | None:
        """The edit that a value's name asks for; none if it is a mask; None: look at the text."""
        if rule.action == "keep" or self._masks.is_mask(text):
            return []
        if not self._valid(rule, text):
            return None
        self._remember(text, rule)
        return [whole(text, quoted, rule, self._masks)]

    def _remember(self, value: str, rule: FieldRule) -> None:
        if rule.propagate and not self._masks.spans(value):
            self._memory.remember(value, rule)

    def _valid(self, rule: FieldRule, text: str) -> bool:
        valid = self._compiled.valid.get(rule.id)
        return (valid is None or valid(text)) and not self._finder.allowed(text)

    def _of_leaf(self, leaf: Leaf, edits: list[Edit]) -> list[Edit]:
        """`edits` settled; a number with a finding in it is replaced whole, by a string."""
        if leaf.quoted:
            return settled(edits)
        mark = edits[0].marks[0]
        put = self._masks.plain(mark.label)
        return [Edit(0, len(leaf.text), f'"{put}"', (replace(mark, action="mask"),), True, 1)]

    def _nested(self, text: str, depth: int) -> list[Edit] | None:
        """The settled edits of a text that is a JSON document; None if it is none."""
        bare = text.strip(" \t\r\n")
        if len(bare) < 2 or bare[0] + bare[-1] not in ("{}", "[]"):
            return None
        try:
            leaves = walk(text, self._compiled.roles)
        except NotJson:
            return None
        edited, _ = self._leaves(text, leaves, depth + 1)
        return _in_json(_in_document(text, edited))

    def _settle(
        self, cell: Cell, edits: list[Edit], depth: int, rule: FieldRule | None = None
    ) -> list[Edit]:
        """`edits` of the cell's text and all that still are found after them; not yet settled.

        The cell's name and `rule` are what later looks go by.
        """
        for _ in range(MAX_LOOKS):
            changed = cell._replace(text=apply(cell.text, edits))
            again = self._look_again(changed, rule, depth)
            if not again:
                return edits
            edits = compose(edits, again)
        mark = edits[0].marks[0]
        put = self._masks.plain(mark.label)
        return [Edit(0, len(cell.text), put, (Mark(mark.rule, mark.label, "mask"),), whole=True)]

    def _look_again(self, cell: Cell, rule: FieldRule | None, depth: int) -> list[Edit]:
        """What a fresh redaction finds in a text."""
        edits = None if rule is None else self._by_field(cell.text, True, rule)
        if edits is None:
            edits = self._nested(cell.text, depth)
        if edits is None:
            edits = self._look(cell.text, self._finder.find([cell]).get(0), depth)
        return edits

    def _look(self, text: str, found: Found | None, depth: int) -> list[Edit]:
        """One look at a text: documents inside it first, then everything that is found in it."""
        if found is None:
            return []
        if OBJECT in found.signals:
            edits = self._embedded(text, found, depth)
            if edits:
                return edits
        if BASE64 in found.signals:
            edits = [edit for run in runs(text) if (edit := self._in_run(run, depth))]
            if edits:
                return edits
        findings = self._findings(found)
        if HIDDEN in found.signals or PERCENT in found.signals:
            findings += self._seen_through(found)
        if not findings:
            return []
        kept = [(f.start, f.end) for f in findings if f.rule.action == "keep"]
        findings = [f for f in findings if not any(s <= f.start and f.end <= e for s, e in kept)]
        return [
            treat(f.value or text[f.start : f.end], f.start, f.end, f.rule, self._masks)
            for f in resolve(findings, self._masks.spans(text))
        ]

    def _findings(self, found: Found) -> list[Finding]:
        """What the rules, the names in the text and the run's memory find in it."""
        findings = [*found.findings, *self._assigned(found)]
        if MEMORY in found.signals:
            findings += self._memory.find(found.text)
        return findings

    def _seen_through(self, found: Found) -> list[Finding]:
        """What is found in the text as it reads decoded, at the places that hold it."""
        findings = []
        for chain in views(found.text):
            shown = chain[-1].text
            seen = self._finder.find([Cell(found.name, shown)]).get(0)
            for finding in self._findings(seen) if seen is not None else ():
                span = finding.start, finding.end
                value = shown[slice(*span)]
                for view in reversed(chain):
                    span = view.original(*span)
                findings.append(replace(finding, start=span[0], end=span[1], value=value))
        return findings

    def _in_run(self, run: Run, depth: int) -> Edit | None:
        """The edit of a run of base64: masked inside, or opaque; None: nothing is found in it."""
        if depth >= MAX_DEPTH:
            raise Unexaminable("too-deep")
        if is_file(run.data):  # what it is decides, not what a data URL calls it
            return opaque(run.text, run.start, run.end, self._masks)
        compressed = is_compressed(run.data)
        text = inflated(run.data) if compressed else readable(run.data)
        edits = [] if text is None else self._look_again(Cell("", text, ""), None, depth + 1)
        if text is None or not edits:
            return None
        if compressed:
            mark = edits[0].marks[0]
            put = self._masks.plain(mark.label)
            return Edit(run.start, run.end, put, (Mark(mark.rule, mark.label, "mask"),))
        edits = settled(self._settle(Cell("", text, ""), edits, depth + 1))
        marks = (replace(m, layers=("base64", *m.layers)) for e in edits for m in e.marks)
        put = encoded(run, apply(text, edits).encode("utf-8", "surrogatepass"))
        return Edit(run.start, run.end, put, tuple(marks))

    def _assigned(self, found: Found) -> Iterator[Finding]:
        ends = sorted([*found.signals.get(NAMED, ()), *found.signals.get(FLAG, ())])
        if not ends:
            return
        for start, end, rule in assignments(found.data, ends, self._compiled.roles, self._valid):
            span = in_text(found, start, end)
            if span is not None:
                self._remember(found.text[slice(*span)], rule)
                yield Finding(*span, rule)

    def _embedded(self, text: str, found: Found, depth: int) -> list[Edit]:
        """The edits of JSON objects that stand in prose."""
        edits: list[Edit] = []
        reached = 0
        for end in sorted(found.signals[OBJECT]):
            span = in_text(found, 0, end)
            start = -1 if span is None else text.rfind("{", 0, span[1])
            if start < reached:
                continue
            try:
                leaves, reached = walk_from(text, start, self._compiled.roles)
            except NotJson as error:
                reached = max(error.position, start + 1)
                continue
            edited, _ = self._leaves(text, leaves, depth + 1)
            edits += _deeper(_in_document(text, edited))
        return edits

    def _renamed(
        self, leaves: Sequence[Leaf], found: Mapping[str, Found], depth: int
    ) -> list[Edited]:
        """The keys to change; no two keys of an object become one."""
        edits_of: dict[str, list[Edit]] = {}
        for key, of_key in found.items():
            edits = self._look(key, of_key, depth)
            if edits:
                edits = self._settle(Cell("", key), edits, depth)
                edits_of[key] = [self._named_mask(edit) for edit in edits]
        frames = {id(leaf.frame) for leaf in leaves if leaf.key in edits_of}
        taken: dict[int, set[str]] = {frame: set() for frame in frames}
        for leaf in leaves:
            if id(leaf.frame) in frames and leaf.key is not None and leaf.key not in edits_of:
                taken[id(leaf.frame)].add(leaf.key)
        renamed = []
        for leaf in leaves:
            if leaf.key is not None and leaf.key in edits_of:
                edits = _apart(leaf.key, edits_of[leaf.key], taken[id(leaf.frame)])
                renamed.append(Edited(leaf, settled(edits), apply(leaf.key, edits)))
        return renamed

    def _named_mask(self, edit: Edit) -> Edit:
        """A key that would be dropped keeps a mask instead: its value must stay reachable."""
        if edit.text:
            return edit
        mark = edit.marks[0]
        return replace(
            edit, text=self._masks.plain(mark.label), marks=(replace(mark, action="mask"),)
        )


def _apart(key: str, edits: list[Edit], taken: set[str]) -> list[Edit]:
    """`edits` of `key`, its last mask numbered if the new key is taken already."""
    number, last, numbered = 2, edits[-1], edits
    while (new_key := apply(key, numbered)) in taken:
        text = f"{last.text[:-1]}#{number}{last.text[-1:]}"
        numbered, number = [*edits[:-1], replace(last, text=text)], number + 1
    taken.add(new_key)
    return numbered


def _in_document(raw: str, edited: Sequence[Edited]) -> list[Edit]:
    """The edits of leaves and keys as edits of the JSON text they stand in."""
    edits: list[Edit] = []
    for each in edited:
        is_key, start = each.new_key is not None, each.start
        end = scanstring(raw, start, True)[1] - 1 if is_key else each.leaf.end
        inner = [place for edit in each.edits for place in (edit.start, edit.end)]
        places = iter(raw_offsets(raw[start:end], inner))
        for edit in each.edits:
            is_string = is_key or each.leaf.quoted
            text = json.dumps(edit.text)[1:-1] if is_string else edit.text
            edits.append(
                Edit(start + next(places), start + next(places), text, edit.marks, lead=edit.lead)
            )
    return edits


def _in_json(edits: Sequence[Edit]) -> list[Edit]:
    """Edits of a text that is a document itself."""
    return [replace(edit, marks=tuple(map(_json, edit.marks))) for edit in edits]


def _deeper(edits: Sequence[Edit]) -> list[Edit]:
    """Edits of a document inside a text: what lies in its own strings is one layer deeper."""
    return [
        replace(e, marks=tuple(m if not m.layers else _json(m) for m in e.marks)) for e in edits
    ]


def _json(mark: Mark) -> Mark:
    return replace(mark, layers=("json", *mark.layers))
