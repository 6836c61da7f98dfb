"""The errors that the command line explains in one message."""


class MnemotuneError(Exception):
    """Say what went wrong, where, and what to do. Errors of other packages derive from it to be shown so too."""


class TryLater(MnemotuneError):  # noqa: N818 - what it asks for
    """Say what did not answer for so long that the command ended; given again later, it goes on."""


class RetiredField(UserWarning):
    """Say that a policy has a field of an older version, naming the file and the field."""
