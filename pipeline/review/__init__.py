"""What security does with rules: explain, check, compare."""
