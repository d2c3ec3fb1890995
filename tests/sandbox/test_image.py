"""The image holds what it promises, is found or missed in one sentence, and is never fetched in silence."""

import uuid
from collections.abc import Iterator
from typing import Any

import docker
import pytest

from actloop.config import DEFAULT_IMAGE
from actloop.errors import ConfigError, ImageMissing, SandboxError
from actloop.sandbox import base_image, building
from actloop.sandbox.image import build_image, ensure_image, image_facts, packages_tag, require_image

ANALYSTS = (
    "numpy",
    "pandas",
    "matplotlib",
    "scipy",
    "openpyxl",
    "scikit-learn",
    "pillow",
    "pyarrow",
    "cloudpickle",
)


@pytest.fixture
def tag(engine: docker.DockerClient) -> Iterator[str]:
    """A tag that nobody has; what is built under it goes away."""
    tag = f"actloop-test:{uuid.uuid4().hex[:12]}"
    yield tag
    for image in engine.images.list(name=tag):
        engine.api.remove_image(image.id, force=True)


def _run(engine: docker.DockerClient, image: str, code: str, **options: Any) -> str:
    """Run code as a box does: read-only root, no network, no privileges, as the image's own user."""
    output = engine.containers.run(
        image, ["python3", "-W", "error", "-c", code], network_mode="none", read_only=True, cap_drop=["ALL"],
        security_opt=["no-new-privileges"], tmpfs={"/tmp": "size=64m,mode=1777"}, remove=True, stderr=True,
        **options,
    )  # fmt: skip
    return bytes(output).decode()


@pytest.mark.docker
@pytest.mark.parametrize("name", ANALYSTS)
def test_the_image_says_which_packages_it_has(engine: docker.DockerClient, image: str, name: str) -> None:
    assert any(package.startswith(f"{name} ") for package in image_facts(engine, image).packages)


def test_the_labels_tell_the_truth(engine: docker.DockerClient, image: str) -> None:
    facts = image_facts(engine, image)
    code = "import platform, pandas; print(platform.python_version(), pandas.__version__)"
    python, pandas = _run(engine, image, code).split()
    assert python == facts.python
    assert f"pandas {pandas}" in facts.packages


def test_code_runs_as_a_user_without_rights_and_can_write_nowhere_but_tmp(
    engine: docker.DockerClient, image: str
) -> None:
    code = """
import os
print(os.getuid(), os.getgid(), os.environ["HOME"])
walk = [*os.walk("/usr"), *os.walk("/opt")]
files = [os.path.join(folder, name) for folder, _, names in walk for name in names]
print([file for file in files if os.lstat(file).st_mode & 0o6000], len(files) > 1000)
"""
    assert _run(engine, image, code).splitlines() == ["10001 10001 /tmp", "[] True"]


def test_the_first_figure_searches_for_no_fonts(engine: docker.DockerClient, image: str) -> None:
    code = """
import os, matplotlib.font_manager as fonts
fonts._load_fontmanager = None
cached = os.listdir(os.environ["MPLCONFIGDIR"])
assert any(name.startswith("fontlist") for name in cached), cached
assert os.path.islink(os.path.join(os.environ["MPLCONFIGDIR"], cached[0])), "written anew"
import matplotlib.pyplot as plt
plt.plot([1, 2]); plt.savefig("/tmp/a.png"); print(plt.get_backend(), os.path.getsize("/tmp/a.png") > 1000)
"""
    assert _run(engine, image, code) == "agg True\n"


def test_imports_find_their_byte_code_on_a_read_only_root(engine: docker.DockerClient, image: str) -> None:
    code = """
import sys, os, json, asyncio, pandas, matplotlib.pyplot
files = [getattr(module, "__cached__", None) or "" for module in sys.modules.values()]
print([file for file in files if file.endswith(".pyc") and not os.path.exists(file)], len(files) > 500)
"""
    assert _run(engine, image, code) == "[] True\n"


def test_nothing_of_the_host_stays_in_the_image(engine: docker.DockerClient, image: str) -> None:
    code = """
import os, glob
print([p for p in ("/build", "/opt/venv/pip.conf", "/etc/pip.conf") if os.path.exists(p)])
print(glob.glob("/opt/venv/lib/python3*/site-packages/*.dist-info/direct_url.json"))
"""
    assert _run(engine, image, code) == "[]\n[]\n"
    steps = " ".join(step["CreatedBy"] for step in engine.api.history(image))
    assert "ca.pem" not in steps
    assert "://" not in steps


def test_a_missing_image_is_named_with_the_command_that_builds_it(engine: docker.DockerClient) -> None:
    with pytest.raises(ImageMissing, match=r"actloop image build.*--from debian"):
        require_image(engine, "actloop-no-such-image:latest")


def test_the_packages_of_a_foreign_image_are_not_known(engine: docker.DockerClient, tag: str) -> None:
    with pytest.raises(ImageMissing):
        require_image(engine, tag)
    engine.api.import_image_from_data(b"\0" * 10240, repository=tag.split(":")[0], tag=tag.split(":")[1])
    facts = image_facts(engine, tag)
    assert (facts.python, facts.packages) == (None, ())
    assert facts.id == require_image(engine, tag)


def test_an_image_that_is_there_is_not_built_again(engine: docker.DockerClient, image: str) -> None:
    before, lines = require_image(engine, image), list[str]()
    assert ensure_image(lines.append) == DEFAULT_IMAGE
    assert (require_image(engine, image), lines) == (before, [])


def test_packages_go_on_top_of_the_default_image(engine: docker.DockerClient, image: str, tag: str) -> None:
    """`joblib` is there already, so that the test asks nobody."""
    engine.api.import_image_from_data(b"\0" * 10240, repository=tag.split(":")[0], tag=tag.split(":")[1])
    older, lines = require_image(engine, tag), list[str]()
    assert build_image(packages=["joblib"], tag=tag, on_line=lines.append) == tag
    below, above = image_facts(engine, image), image_facts(engine, tag)
    assert {package.split()[0] for package in set(above.packages) - set(below.packages)} == {"joblib"}
    assert above.size - below.size < 1 << 20
    assert lines[-1].startswith(f"{tag}: Python {below.python}, ")
    with pytest.raises(ImageMissing):  # what had the tag before
        require_image(engine, older)
    stages = engine.images.list(all=True, filters={"label": "actloop.stage"})
    assert not [stage for stage in stages if stage.attrs["Created"] > engine.images.get(tag).attrs["Created"]]


def test_a_failed_build_is_one_sentence_and_the_end_of_the_log(
    engine: docker.DockerClient, image: str, tag: str
) -> None:
    with pytest.raises(SandboxError) as caught:
        build_image(packages=["numpy<1"], tag=tag, on_line=lambda line: None)
    assert "Step 9" not in str(caught.value)
    first, *log = str(caught.value).splitlines()
    assert first.startswith("The image was not built: a command returned a non-zero code: 1. ")
    assert first.endswith("run `actloop image build` again.")
    assert "numpy" in "".join(log)
    assert 0 < len(log) <= building.LOG_TAIL
    assert not engine.images.list(name=tag)


@pytest.mark.parametrize(
    "spec",
    [
        "--index-url=http://127.0.0.1/",
        "-r requirements.txt",
        "-e .",
        "numpy --pre",
        "./numpy",
        "/etc/passwd",
        "git+http://127.0.0.1/x",
        "numpy @ http://127.0.0.1/x",
        "numpy; rm -rf /",
        "numpy\n--pre",
        "$(id)",
        "numpy>=",
        "",
    ],
)
def test_what_is_not_a_package_name_never_reaches_pip(spec: str) -> None:
    with pytest.raises(ConfigError, match="is not a package"):
        build_image(packages=["pandas", spec], on_line=lambda line: None)


@pytest.mark.parametrize("spec", ["duckdb", "polars>=1,<2", "pandas[excel]==2.*", "ruamel.yaml ~= 0.18"])
def test_names_with_extras_and_versions_are_packages(spec: str) -> None:
    assert packages_tag([spec]).startswith("actloop-sandbox:p-")


def test_the_tag_of_packages_depends_on_nothing_but_the_packages() -> None:
    assert packages_tag(["polars>=1", "duckdb"]) == packages_tag(["duckdb", "polars >= 1", "duckdb"])
    assert packages_tag(["duckdb"]) != packages_tag(["polars"])


def test_a_registry_that_does_not_answer_is_named_with_the_way_around_it(
    engine: docker.DockerClient, tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_image, "REGISTRY_BASE", "127.0.0.1:1/python:none")
    with pytest.raises(ImageMissing, match=r"cannot be fetched: .+ Use `actloop image build --from debian`"):
        build_image(tag=tag, on_line=lambda line: None)


def test_without_mmdebstrap_and_without_root_the_package_to_install_is_named(
    engine: docker.DockerClient, tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_image, "DEBIAN_BASE", tag)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(SandboxError, match="apt-get install mmdebstrap"):
        build_image(base="debian", tag=tag, on_line=lambda line: None)
