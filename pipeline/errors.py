"""Errors of the pipeline, each with what to do about it.

PipelineError                 exit code 3: could not do it
├── UsageError                exit code 2: wrong usage (bad option, bad configuration file)
├── InputError                a file to emit is not what its format says: names file and line
├── BrokerError               the broker is away, refuses us, or has not the topic
├── RegistryError             the schema registry is away, refuses us, or is none
├── LakeError                 the lake cannot be read or written (permissions, space, store)
│   ├── LakeUnusable          its disk is full, read-only or closed to us: stop, do not retry
│   └── LostPartition         another writer owns the partition: stop, do not retry
├── TooManyDeadLetters        too many messages are no events: stop rather than bin a topic
├── LogError                  the commit log contradicts itself or the topic
├── ReceiptChanged            exit code 1: a receipt is not what was signed
└── IngestError               the ingest gave up after its retries
"""

from typing import ClassVar


class PipelineError(Exception):
    """Root of every error raised by `pipeline`.

    `code` is a stable lower-kebab name; `hint` says what to do.  Messages never hold payload.
    `is_final`: trying again cannot help.
    """

    exit_code: ClassVar[int] = 3
    is_final: ClassVar[bool] = False

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        self.code, self.hint = code, hint
        super().__init__(message)


class UsageError(PipelineError):
    exit_code: ClassVar[int] = 2
    is_final: ClassVar[bool] = True


class InputError(PipelineError):
    is_final: ClassVar[bool] = True


class BrokerError(PipelineError):
    pass


class RegistryError(PipelineError):
    pass


class LakeError(PipelineError):
    pass


class LakeUnusable(LakeError):
    is_final: ClassVar[bool] = True


class LostPartition(LakeError):
    is_final: ClassVar[bool] = True


class TooManyDeadLetters(PipelineError):
    is_final: ClassVar[bool] = True


class LogError(PipelineError):
    is_final: ClassVar[bool] = True


class ReceiptChanged(PipelineError):
    exit_code: ClassVar[int] = 1
    is_final: ClassVar[bool] = True


class IngestError(PipelineError):
    pass
