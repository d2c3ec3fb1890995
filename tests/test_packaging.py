"""What is installed is what is in the tree: every package, every data file, and one name at the top."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]

IMPORT_ALL = """
import importlib, importlib.util, pkgutil, sys
import actloop
print(actloop.__file__)
for module in pkgutil.walk_packages(actloop.__path__, "actloop."):
    if not module.name.endswith(".__main__"):
        importlib.import_module(module.name)
print(sorted(name for name in ("graph", "nodes", "sandbox", "evals") if importlib.util.find_spec(name)))
"""


def _folders() -> dict[str, Path]:
    """Package name -> its folder, as the wheel sees them; folders of data alone are listed, too."""
    return {name: ROOT / SETUPTOOLS["package-dir"][name] for name in SETUPTOOLS["packages"]}


def _packages() -> dict[str, Path]:
    """Those of them that hold code."""
    return {name: folder for name, folder in _folders().items() if (folder / "__init__.py").is_file()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the tree, built from a copy because a build leaves files behind."""
    copy = tmp_path_factory.mktemp("tree") / "actloop"
    dirt = shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__", "*.egg-info", "build", "dist")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=dirt)
    out = copy.parent / "dist"
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(copy)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but the installed wheel."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-compile", "--target", str(target), str(wheel)], check=True, timeout=120)
    return target


def test_every_package_on_disk_is_listed() -> None:
    listed = {folder.resolve() for folder in _packages().values()}
    tops = [folder for folder in ROOT.iterdir() if (folder / "__init__.py").is_file()]
    on_disk = {init.parent.resolve() for top in tops if top.name not in ("tests", "bench") for init in _inits(top)}
    assert on_disk == listed


def _inits(top: Path) -> list[Path]:
    return [path for path in top.rglob("__init__.py") if "__pycache__" not in path.parts]


def test_checkers_reach_every_folder_through_a_relative_link() -> None:
    for name, folder in _packages().items():
        if name != "actloop":
            link = ROOT / "actloop" / name.removeprefix("actloop.")
            assert link.is_symlink()
            assert not link.readlink().is_absolute()
            assert link.resolve() == folder.resolve()


def test_every_file_of_a_package_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    expected = {
        f"{name.replace('.', '/')}/{file.relative_to(folder).as_posix()}"
        for name, folder in _folders().items()
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and not _under_link(file, folder)
    }
    assert "actloop/sandbox/Dockerfile" in expected
    assert expected - inside == set()


def _under_link(file: Path, folder: Path) -> bool:
    """Whether the file belongs to another package, which a link below `actloop/` leads to."""
    return any(parent.is_symlink() for parent in file.parents if parent.is_relative_to(folder))


def test_one_name_reaches_site_packages(installed: Path) -> None:
    names = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert names - {"bin"} == {"actloop"}


def test_every_module_of_the_installed_wheel_can_be_imported(installed: Path, tmp_path: Path) -> None:
    """In a bare folder, where an import of `graph` instead of `actloop.graph` fails."""
    environment = {"PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(tmp_path)}
    command = [sys.executable, "-c", IMPORT_ALL]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(installed / "actloop" / "__init__.py"), "[]"]
