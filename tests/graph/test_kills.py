"""A run survives the death of its process and of its container; `make durability` does this forty times each."""

import random
from pathlib import Path

import pytest

from tests.graph.kills import kill_box, kill_host

pytestmark = pytest.mark.docker


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_every_cell_and_every_call_happens_once_though_the_host_is_killed(
    image: str, tmp_path: Path, postgres_url: str, store: str
) -> None:
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        killed = kill_host(folder, random.uniform(1.5, 5.0), postgres_url if store == "postgres" else None)
        assert killed.once, killed


def test_a_run_goes_on_from_the_last_snapshot_though_its_box_is_killed(image: str, tmp_path: Path) -> None:
    killed = kill_box(tmp_path, random.uniform(1.5, 3.0))
    assert killed.right, killed
