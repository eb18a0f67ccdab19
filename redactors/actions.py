"""What is done about a finding: `keep`, `mask`, `hash`, `length` or `drop`."""

from redactors.compiled import Treatment
from redactors.edits import Edit, Mark
from redactors.masks import BLOB_LABEL, Masks


def treat(value: str, start: int, end: int, rule: Treatment, masks: Masks) -> Edit:
    """The edit of `[start, end)` that `rule` asks for, where `value` was found; not for `keep`.

    Without a key, what would be hashed is masked.
    """
    action, label = rule.action, rule.label
    length = None
    if action == "hash" and masks.keyed:
        put = masks.hashed(label, value.encode("utf-8", "surrogatepass"))
    elif action == "length":
        length = end - start
        put = masks.measured(label, length)
    elif action == "drop":
        put = ""
    else:
        action, put = "mask", masks.plain(label)
    return Edit(start, end, put, (Mark(rule.id, label, action, length=length),))


def opaque(text: str, start: int, end: int, masks: Masks) -> Edit:
    """The edit that leaves of a blob its length and, with a key, its hash."""
    length = end - start
    put = masks.measured(BLOB_LABEL, length)
    if masks.keyed:
        put = masks.hashed(BLOB_LABEL, text[start:end].encode())
    return Edit(start, end, put, (Mark("opaque-blob", BLOB_LABEL, "length", length=length),))


def whole(text: str, quoted: bool, rule: Treatment, masks: Masks) -> Edit:
    """The edit of a whole value by a field rule; one that is no string becomes one."""
    edit = treat(text, 0, len(text), rule, masks)
    if quoted:
        return edit._replace(whole=True)
    put = f'"{edit.text}"' if edit.text else "null"
    return edit._replace(text=put, whole=True, lead=1)
