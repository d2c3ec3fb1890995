import subprocess
import sys

import pytest

from actloop.config import Limits
from actloop.sandbox import open_session
from actloop.sandbox.claims import CLAIMS, Claim
from actloop.sandbox.conformance import check_all
from actloop.sandbox.session import BoxSession

pytestmark = pytest.mark.timeout(300)


def _open(limits: Limits) -> BoxSession:
    return open_session("docker", limits=limits)


@pytest.mark.usefixtures("image")
def test_the_docker_session_holds_every_claim() -> None:
    results = list(check_all(_open))
    assert [f"{result.claim.name}: {result.failure}" for result in results if result.failure] == []
    assert len(results) == len(CLAIMS) > 40


@pytest.mark.usefixtures("image")
def test_a_claim_that_does_not_hold_is_told_with_what_was_seen() -> None:
    def wrong(session: object) -> None:
        raise AssertionError("1 instead of 2")

    CLAIMS.append(Claim("a wrong claim", wrong, None))
    try:
        (result,) = check_all(_open, lambda claim: claim.check is wrong)
    finally:
        CLAIMS.pop()
    assert "1 instead of 2" in result.failure


def test_an_unknown_sandbox_is_wrong_use() -> None:
    asked = [sys.executable, "-m", "actloop.sandbox.conformance", "nosuch"]
    done = subprocess.run(asked, capture_output=True, text=True)
    assert done.returncode == 2
    assert "docker" in done.stderr
