"""Settings: limits of a box, budget of a run, and what the environment may set.

The environment is read in `Settings()` alone, which the command line and `create_agent` call once; everything below
them gets plain values.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

DEFAULT_IMAGE = "actloop-sandbox:latest"
"""Tag of the image that `actloop image build` makes."""

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_size(value: object) -> int:
    """Read a size as Docker writes it: `"512m"`, `"1.5g"`, `"64MiB"`, or a number of bytes.

    Args:
        value: text with an optional unit (k, m, g, t: powers of 1024), or a whole number of bytes.

    Returns:
        The size in bytes.

    Raises:
        ValueError: the text is not a size.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", str(value).lower())
    if match is None:
        raise ValueError(f"{value!r} is not a size; write a number of bytes or, for example, '512m' or '2g'")
    return int(float(match[1]) * _UNITS[match[2]])


Size = Annotated[int, BeforeValidator(parse_size)]


class Limits(BaseModel):
    """What one box may use. Each limit is enforced by the kernel or by the supervisor, never by the user's code."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory: Size = Field(default=512 << 20, ge=64 << 20)
    """Memory of the box's processes, in bytes or as '512m'. Files in memory do not count against it: see `disk`."""
    cpus: float = Field(default=1.0, gt=0, le=256)
    """Processors, 0.5 is half of one."""
    pids: int = Field(default=128, ge=16, le=32768)
    """Processes and threads at one time."""
    disk: Size = Field(default=256 << 20, ge=1 << 20)
    """Size of the workspace, which lies in memory: the box costs its host at most `memory` + `disk` + 96 MiB."""
    files: int = Field(default=16384, ge=256)
    """Files and folders in the workspace."""
    wall_s: float = Field(default=30.0, gt=0, le=86400)
    """Seconds that one cell may run; a caller's own `timeout` is cut to this."""
    grace_s: float = Field(default=0.25, ge=0, le=10)
    """Seconds between the interrupt at the time limit and the kill."""
    output: Size = Field(default=32 << 10, ge=256)
    """Bytes kept of each output stream of a cell: half from its head, half from its tail."""
    open_files: int = Field(default=1024, ge=64)
    """File descriptors of one process."""
    transfer: Size = Field(default=64 << 20, ge=1 << 10)
    """Size of one file that goes in or comes out, and of one variable in a snapshot."""
    snapshot: Size = Field(default=256 << 20, ge=1 << 10)
    """Size of a snapshot: variables and files together."""
    idle_s: float = Field(default=1800.0, gt=0)
    """Seconds without work after which the box of a thread ends; its thread goes on from its snapshot. A cell that
    runs is work; a cell that waits for the host is not."""
    host_calls: int = Field(default=10_000, ge=0, le=10_000)
    """Calls of one cell to functions of the host."""

    if TYPE_CHECKING:
        # What may be given is wider than what is read: type checkers know only the latter.
        def __init__(
            self,
            *,
            memory: int | str = ...,
            cpus: float = ...,
            pids: int = ...,
            disk: int | str = ...,
            files: int = ...,
            wall_s: float = ...,
            grace_s: float = ...,
            output: int | str = ...,
            open_files: int = ...,
            transfer: int | str = ...,
            snapshot: int | str = ...,
            idle_s: float = ...,
            host_calls: int = ...,
        ) -> None: ...

    def cell_timeout(self, asked: object = None) -> float:
        """Seconds a cell gets: what was asked for where that makes sense, and never more than `wall_s`.

        Args:
            asked: a number, a text that holds one, or None. A model may send anything here.

        Returns:
            A number above 0 and at most `wall_s`; `wall_s` where `asked` is no positive number.
        """
        try:
            seconds = float(asked)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return self.wall_s
        return min(seconds, self.wall_s) if seconds > 0 else self.wall_s


class Budget(BaseModel):
    """What one run may spend. None means without limit; checked before every model call.

    What models that host functions call have used counts as well, an agent's that is called as one included.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tokens: int | None = Field(default=None, gt=0)
    """Input and output tokens together."""
    usd: float | None = Field(default=None, gt=0)
    """US dollars; every model needs a known price then: see `actloop/prices.py`."""
    model_calls: int | None = Field(default=None, gt=0)
    """Requests to models."""
    wall_s: float | None = Field(default=None, gt=0)
    """Seconds since the run began."""
    cells: int | None = Field(default=None, gt=0)
    """Cells; beside `max_turns`, which says what the model is told that it has."""
    host_calls: int | None = Field(default=None, gt=0)
    """Calls of the run's cells to functions of the host; one beyond them is an error in its cell."""
    thread_tokens: int | None = Field(default=None, gt=0)
    """Tokens of all runs of the thread together."""
    thread_usd: float | None = Field(default=None, gt=0)
    """US dollars of all runs of the thread together."""


def _data_home() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "actloop"


class Settings(BaseSettings):
    """What the environment may set, each with the prefix `ACTLOOP_`; `OPENAI_API_KEY` is read as well."""

    model_config = SettingsConfigDict(env_prefix="ACTLOOP_", extra="ignore", populate_by_name=True)

    model: str | None = None
    """Name of the model: `openai:gpt-5`, or a bare name together with `base_url`."""
    base_url: str | None = None
    """Address of an OpenAI-compatible server, for example `http://127.0.0.1:11434/v1`."""
    api_key: str | None = Field(default=None, repr=False)
    """Key for that server, where it wants one."""
    openai_api_key: str | None = Field(default=None, validation_alias="OPENAI_API_KEY", repr=False)
    """Key for OpenAI."""
    image: str = DEFAULT_IMAGE
    """Image of the sandbox."""
    data_dir: Path = Field(default_factory=_data_home)
    """Folder of checkpoints, artifacts and snapshots."""
    checkpoints: str | None = Field(default=None, repr=False)
    """Where threads are kept: path of a SQLite file, or a URL (`sqlite:///…`, `postgresql://…`); unset is a file in
    `data_dir`."""
    snapshots: str | None = None
    """Where snapshots are kept: a folder, or a URL that fsspec knows (`s3://bucket/prefix`); unset is a folder in
    `data_dir`."""
    prices: str | None = None
    """JSON file of prices of models, which go before the table's: see `actloop/prices.py`."""
    pool: int = Field(default=0, ge=0)
    """Boxes that an agent keeps started for threads to come."""

    @property
    def snapshot_store(self) -> str:
        """Folder or URL of the snapshots."""
        return self.snapshots or str(self.data_dir / "snapshots")
