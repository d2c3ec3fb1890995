"""Errors that a caller may catch.

```
ActloopError
├── ConfigError (ValueError)             a setting, option or input that cannot be used
│   └── InputError (OSError)             an input file or an output folder that cannot be used
├── SandboxError (RuntimeError)          the sandbox, never the code that ran in it
│   ├── SandboxUnavailable (ConnectionError)   no engine answers
│   ├── ImageMissing (LookupError)       the sandbox image is not there
│   ├── SandboxLost (ConnectionError)    the box ended while we used it
│   ├── SessionBusy                      a cell is running; one session runs one cell at a time
│   ├── FileRefused (OSError)            a path or a size that may not cross the border of the box
│   └── SnapshotError (OSError)          the store of snapshots cannot be reached, read or written
│       └── SnapshotRefused              a snapshot that was altered, is foreign, or breaks the rules
├── CallPending                          a cell waits in its box for a person, who must approve a call
└── ModelError (RuntimeError)            the model's provider, never the model's reply
    ├── ModelUnavailable (ConnectionError)     unreachable, overloaded or failing after the retries
    ├── ModelAccessDenied (PermissionError)    no key, a wrong key, or no right to this model
    └── ModelRequestRefused (ValueError)       the provider refuses this request
```

What user code did wrong is never one of these: it is data, an `Execution`. Every message is one sentence about
what happened and one about what to do next.
"""

from typing import Protocol


class Call(Protocol):
    """What `CallPending` tells of a call; see `actloop.protocols.PendingCall`."""

    @property
    def number(self) -> int:
        """Of the call in its cell."""
        ...

    @property
    def tool(self) -> str:
        """Function that the cell called."""
        ...

    @property
    def arguments(self) -> str:
        """JSON."""
        ...


class ActloopError(Exception):
    """Base of all errors that actloop raises on purpose."""


class ConfigError(ActloopError, ValueError):
    """A setting, an option or an input that cannot be used."""


class InputError(ConfigError, OSError):
    """An input file that cannot be read, or an output folder that cannot be written."""


class SandboxError(ActloopError, RuntimeError):
    """The sandbox failed; the code in it is not to blame."""


class SandboxUnavailable(SandboxError, ConnectionError):
    """No engine answers, or it refuses the box that was asked for."""


class ImageMissing(SandboxError, LookupError):
    """The image of the sandbox is not on the engine; nothing is ever pulled in silence."""


class SandboxLost(SandboxError, ConnectionError):
    """The box ended or was removed while it was in use."""


class SessionBusy(SandboxError):
    """A cell is running in this session already."""


class FileRefused(SandboxError, OSError):
    """A path, a kind of file or a size that may not cross the border of the box."""


class SnapshotError(SandboxError, OSError):
    """The store of snapshots cannot be reached, read or written."""


class SnapshotRefused(SnapshotError):
    """A snapshot that was altered, belongs to another thread or point, lacks a part, or breaks the rules."""


class CallPending(ActloopError):
    """A cell has called what a person must approve first: it waits in its box. `call` says what it wants."""

    def __init__(self, cell_id: str, call: Call) -> None:
        super().__init__(
            f"Call {call.number} of the cell, to {call.tool}, waits for a person; follow it with an answer."
        )
        self.cell_id = cell_id
        self.call = call


class ModelError(ActloopError, RuntimeError):
    """The model's provider failed; the model's reply is not to blame."""

    code: str = ""
    """Kind of the failure, in one word: `content_filter`, `wrong_key`, `unreachable`; see `nodes/model_failures.py`."""


class ModelUnavailable(ModelError, ConnectionError):
    """The provider cannot be reached, is overloaded, or failed after the last retry."""


class ModelAccessDenied(ModelError, PermissionError):
    """There is no key, the key is wrong, or it has no right to this model."""


class ModelRequestRefused(ModelError, ValueError):
    """The provider refuses this request, and would refuse it again."""
