"""What every kind of sandbox must do, as claims that are run: `python -m actloop.sandbox.conformance docker`.

A third party that writes a backend runs the same claims on it: `check_all(open_session)` needs no test framework.
"""

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from actloop.config import Limits
from actloop.protocols import Session

from . import claims_of_ends, claims_of_files, claims_of_notebook, claims_of_output, claims_of_state
from .claims import CLAIMS, Claim
from .opening import BACKENDS, open_session

_GROUPS = (claims_of_ends, claims_of_output, claims_of_notebook, claims_of_files, claims_of_state)

Open = Callable[[Limits], AbstractContextManager[Session]]


@dataclass(frozen=True)
class Result:
    """How one claim went."""

    claim: Claim
    failure: str = ""
    """Empty if the claim holds; else what was seen instead."""


def check_all(open_box: Open, chosen: Callable[[Claim], bool] = lambda claim: True) -> Iterator[Result]:
    """Run claims, each in a box of its own where it needs special limits, the others one after the other in one box.

    Args:
        open_box: starts a session with the limits given.
        chosen: which claims to run.

    Yields:
        One result a claim. A box that a claim has broken is replaced before the next one.
    """
    shared: Session | None = None
    manager: AbstractContextManager[Session] | None = None
    try:
        for claim in filter(chosen, CLAIMS):
            if claim.limits is not None:
                with open_box(claim.limits) as session:
                    yield _check(claim, session)
                continue
            if shared is None:
                manager = open_box(Limits())
                shared = manager.__enter__()
            result = _check(claim, shared)
            yield result
            if result.failure and manager is not None:
                manager.__exit__(None, None, None)
                shared = manager = None
    finally:
        if manager is not None:
            manager.__exit__(None, None, None)


def _check(claim: Claim, session: Session) -> Result:
    try:
        claim.check(session)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Result(claim, f"{type(error).__name__}: {error} ({where.line})")
    return Result(claim)


def main(arguments: list[str]) -> int:
    """Check a backend by name and print one line a claim.

    Returns:
        0 if all hold, 1 if one does not, 2 for wrong use.
    """
    if len(arguments) != 1 or arguments[0] not in BACKENDS:
        print(f"Give one sandbox: python -m actloop.sandbox.conformance {'|'.join(BACKENDS)}", file=sys.stderr)
        return 2
    failed = 0
    for result in check_all(lambda limits: open_session(arguments[0], limits=limits)):
        print(f"{'FAIL' if result.failure else 'ok  '} {result.claim.name}", flush=True)
        if result.failure:
            failed += 1
            print(f"     {result.failure}")
    print(f"{len(CLAIMS) - failed} of {len(CLAIMS)} claims hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
