"""The error tree. Two families decide what a worker does next.

    PipelineError
    ├── Transient                 try again (with back-off, until the row's tries run out)
    │   ├── ServiceUnavailable    a database, broker or draft server does not answer
    │   ├── StorageFull           the archive is below its free-space floor
    │   └── LeaseLost             another worker holds the row now
    └── Permanent                 show a human; a retry changes nothing until somebody acts
        ├── BadInput              bytes or values that cannot be understood
        │   ├── UnreadableDicom
        │   ├── NotFound          what a caller names is not here
        │   └── BadDraft          a model's answer that is not a valid report
        ├── Unsupported           understood, but no model here reads it (head, limb, no CT volume)
        ├── ModelMissing          weights, tokenizer or card are absent or do not fit
        ├── NotAllowed            a rule of the house forbids it (phantom-only model on a real study)
        └── IllegalMove           a state machine has no such move

Every message names the thing, the value and the next step, and holds no patient data and no DICOM UID.
"""


class PipelineError(Exception):
    """Anything that this project raises on purpose."""


class Transient(PipelineError):
    """Try again later: the same call may succeed."""


class ServiceUnavailable(Transient):
    """A database, broker or draft server does not answer."""


class StorageFull(Transient):
    """The archive has less free space than its floor."""


class LeaseLost(Transient):
    """The row that this worker had claimed belongs to another worker now."""


class Permanent(PipelineError):
    """Show a human: a retry changes nothing until somebody acts."""


class BadInput(Permanent):
    """Bytes or values that cannot be understood."""


class UnreadableDicom(BadInput):
    """A data set that has no usable header."""


class NotFound(BadInput):
    """What a caller names is not here."""


class BadDraft(BadInput):
    """A model's answer that is not a valid report."""


class Unsupported(Permanent):
    """Understood, but nothing here reads it: head, limb, no CT volume."""


class ModelMissing(Permanent):
    """Weights, tokenizer or model card are absent or do not fit together."""


class NotAllowed(Permanent):
    """A rule of the house forbids it."""


class IllegalMove(Permanent):
    """A state machine has no such move."""
