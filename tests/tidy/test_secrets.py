"""No key stands in the repository, not even a false one: our own rules look for it."""

from pathlib import Path

from redactors import Redactor, Ruleset, load_ruleset

RULES = "redactors/rulesets"
"""The rules themselves: they describe keys, and build their examples when they are loaded."""


def test_no_tracked_file_holds_what_our_rules_take_for_a_key(tracked: list[Path]) -> None:
    redactor = Redactor(_rules_of_form(), None)
    found = [
        f"{path}: {redaction.rule}"
        for path in tracked
        if RULES not in path.as_posix()
        for redaction in redactor.redact_text(path.read_text(errors="replace")).redactions
    ]
    assert not found, "\n".join(found)


def test_the_search_finds_a_key_that_is_there() -> None:
    key = "AKI" + "A" + "Q3EGRZ7XUM5TBWVN"
    assert Redactor(_rules_of_form(), None).redact_text(f"key: {key}").redactions


def _rules_of_form() -> Ruleset:
    """Rules that know a key by its own form; `password = input()` is no key in a program."""
    ruleset = load_ruleset()
    of_form = [
        rule
        for rule in ruleset.rules
        if rule.kind == "secret" and rule.label != "PASSWORD" and not rule.id.startswith("named-")
    ]
    return ruleset.model_copy(update={"rules": tuple(of_form), "fields": (), "recognizers": ()})
