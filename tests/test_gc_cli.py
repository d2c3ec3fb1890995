"""`actloop gc`: what it says, what it removes, and what it leaves."""

import functools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest

from actloop import cleaning, cli, doctor
from actloop.cleaning import snapshot_bytes
from actloop.config import Settings
from actloop.doctor import diagnose
from actloop.sandbox import sweeping

PROGRAM = Path(__file__).parent / "sandbox" / "orphans.py"


@dataclass
class Orphans:
    """The boxes of a process that was killed."""

    owner: int
    names: dict[str, str]

    def mine(self, labels: Mapping[str, str]) -> bool:
        return labels.get("actloop.owner") == str(self.owner)


@pytest.fixture
def orphans(engine: docker.DockerClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[Orphans]:
    """Boxes to remove; the command sees no other than these, whatever is on the engine."""
    command = [sys.executable, str(PROGRAM), "idle", "works", "created"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        made = Orphans(child.pid, json.loads(child.stdout.readline()))
        child.kill()
    monkeypatch.setattr(sweeping, "YOUNG_S", 0.0)
    for module in (cleaning, doctor):
        monkeypatch.setattr(module, "sweep", functools.partial(sweeping.sweep, mine=made.mine))
    yield made
    for name in there(engine, made):
        engine.containers.get(name).remove(force=True)


def there(engine: docker.DockerClient, orphans: Orphans) -> set[str]:
    found = engine.api.containers(all=True, filters={"label": f"actloop.owner={orphans.owner}"})
    return {name.lstrip("/") for each in found for name in each["Names"]}


@pytest.fixture
def gc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command; exit code, stdout, stderr."""

    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["actloop", "gc", *args])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


Gc = Callable[..., tuple[int, str, str]]


def test_it_says_what_it_would_remove_then_removes_that_and_then_all(
    engine: docker.DockerClient, orphans: Orphans, gc: Gc
) -> None:
    idle, works, created = (orphans.names[kind] for kind in ("idle", "works", "created"))
    code, out, err = gc("--dry-run")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert f"would remove {idle} (thread idle): its owner, process {orphans.owner} on " in lines[0]
    assert lines[1] == f"would remove {created} (thread created): it was never started"
    assert lines[2] == "2 boxes would be removed, 1 left."
    assert there(engine, orphans) == {idle, works, created}

    code, out, _ = gc()
    assert code == 0
    assert f"removed {idle} (thread idle): " in out
    assert "2 boxes removed, 1 left." in out
    assert there(engine, orphans) == {works}

    code, out, _ = gc("--all")
    assert code == 0
    assert "has ended, though a cell runs" in out
    assert "1 box removed, 0 left." in out
    assert there(engine, orphans) == set()

    assert gc()[1].splitlines()[0] == "0 boxes removed, 0 left."


def test_as_json_it_tells_of_every_box(orphans: Orphans, gc: Gc) -> None:
    code, out, _ = gc("--dry-run", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["snapshot_bytes"] == 0
    boxes = {box["name"]: box for box in told["boxes"]}
    assert set(boxes) == set(orphans.names.values())
    works = boxes[orphans.names["works"]]
    assert (works["thread"], works["owner_ended"], works["running"]) == ("works", True, "endless")
    assert (works["reason"], works["removed"]) == ("", False)
    assert boxes[orphans.names["idle"]]["reason"]


def test_without_an_engine_it_is_one_sentence(monkeypatch: pytest.MonkeyPatch, gc: Gc) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    code, out, err = gc()
    assert (code, out) == (2, "")
    assert err.startswith("actloop: No Docker engine answers")
    assert len(err.splitlines()) == 1


def test_the_size_of_the_snapshots_is_told(orphans: Orphans, gc: Gc) -> None:
    folder = Settings().data_dir / "snapshots" / "t1"
    folder.mkdir(parents=True)
    (folder / "one").write_bytes(b"x" * 1500)
    (folder / "two").write_bytes(b"x" * 1500)
    assert f"Snapshots of threads: 3 KB in {folder.parent}" in gc("--dry-run")[1]


def test_the_size_of_a_store_elsewhere_is_not_asked_for(tmp_path: Path) -> None:
    assert snapshot_bytes("s3://bucket/prefix") is None
    assert snapshot_bytes(str(tmp_path / "nowhere")) == 0


def test_the_doctor_counts_boxes(orphans: Orphans) -> None:
    check = next(check for check in diagnose() if check.name == "Boxes")
    assert check.ok
    assert check.detail == "3 there, 2 of them of no use any more; `actloop gc` removes those"
