"""Telephone numbers (ITU-T E.164): at most 15 digits."""


def phone(text: str) -> bool:
    """Whether `text` holds 7 to 15 digits, not all the same, and balanced parentheses."""
    digits = [c for c in text if c.isdecimal()]
    if not 7 <= len(digits) <= 15 or len(set(digits)) < 3:
        return False
    return text.count("(") == text.count(")")
