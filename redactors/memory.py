"""What a run has shown in its fields, so that it is masked where it comes up again."""


class RunMemory:
    """The remembered values of one run."""
