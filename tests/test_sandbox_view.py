import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from agentrl.errors import UsageError
from agentrl.sandbox.view import view
from tests.sandbox_users import ROOT


def install(site, name, files, requires=(), version="1.0"):
    """Lay a distribution into a folder, as pip does."""
    info = f"{name.replace('-', '_').replace('.', '_')}-{version}.dist-info"
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    lines += [f"Requires-Dist: {text}" for text in requires]
    files = {**dict.fromkeys(files, ""), f"{info}/METADATA": "\n".join(lines)}
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    for path, text in files.items():
        if not path.startswith(".."):
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text(text)


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def names(site, packages):
    shown = view(packages)
    assert shown.folders == (os.path.realpath(site),)
    return {path[len(shown.folders[0]) + 1 :] for path in shown.files if str(site) in path}


def test_a_distribution_is_shown_with_what_it_requires_and_nothing_else(site):
    install(
        site,
        "wanted-one",
        ["wanted/__init__.py", "wanted/a.so", "wanted_one.libs/x.so"],
        ["Needed_Two>=1"],
    )
    install(site, "needed.two", ["needed/__init__.py", "single.py", "../../bin/run"])
    install(site, "other", ["other/__init__.py"])
    assert names(site, ["Wanted_One"]) == {
        "wanted",
        "wanted_one.libs",
        "wanted_one-1.0.dist-info",
        "needed",
        "single.py",
        "needed_two-1.0.dist-info",
    }
    assert view(["wanted-one"]).modules == ("wanted",)


def test_of_a_folder_that_distributions_share_only_the_own_part_is_shown(site):
    install(site, "one", ["space/one/__init__.py", "space/one/a.py"])
    install(site, "two", ["space/two/__init__.py"])
    assert names(site, ["one"]) == {"space/one", "one-1.0.dist-info"}
    assert view(["one"]).modules == ("space.one",)


def test_what_is_required_elsewhere_or_as_an_extra_is_left_out(site):
    install(site, "one", ["one.py"], ["two; extra == 'more'", "absent; sys_platform == 'amiga'"])
    install(site, "two", ["two.py"])
    assert names(site, ["one"]) == {"one.py", "one-1.0.dist-info"}


def test_circles_of_requirements_end(site):
    install(site, "one", ["one.py"], ["two"])
    install(site, "two", ["two.py"], ["one"])
    assert {"one.py", "two.py"} <= names(site, ["one"])


@pytest.mark.parametrize("top", ["agentrl", "agentrl_environments", "agentrl_tools"])
def test_what_holds_answers_is_never_shown_by_any_name(site, top):
    install(site, "friendly", [f"{top}/__init__.py"])
    install(site, "harmless", ["harmless.py"], ["friendly"])
    with pytest.raises(UsageError, match="'friendly', which harmless requires, cannot be shown"):
        view(["harmless"])


def test_a_name_that_is_not_installed_is_asked_back(site):
    install(site, "wanted-one", ["wanted.py"])
    with pytest.raises(
        UsageError, match=r"'wanted-on' is not installed here\. Did you mean wanted"
    ):
        view(["wanted-on"])
    with pytest.raises(UsageError, match="'' is not installed"):
        view([""])


def test_sources_installed_in_place_are_asked_to_be_installed(site):
    install(site, "mine", ["__editable__.mine-1.0.pth", "__editable___mine_finder.py"])
    with pytest.raises(UsageError, match="Install it without -e"):
        view(["mine"])


def test_all_that_is_shown_exists_and_no_installed_package_is_among_it():
    shown = view()
    assert all(os.path.exists(path) for path in shown.files)
    assert shown.folders == ()
    real = {os.path.realpath(path) for path in (*shown.files, os.sep)}
    hidden = {os.path.realpath(path) for path in shown.hidden}
    for path in (sysconfig.get_path("purelib"), str(ROOT), str(Path(__file__))):
        path = os.path.realpath(path)
        above = {str(parent) for parent in (Path(path), *Path(path).parents)}
        assert not above & (real - {os.sep}) or above & hidden


def test_a_virtual_environment_sees_the_library_of_its_python(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    code = (
        "import os\nfrom agentrl.sandbox.view import view\n"
        "print(os.path.dirname(os.__file__) in view().files)"
    )
    found = subprocess.run(
        [tmp_path / "v/bin/python", "-c", code],
        env={"PYTHONPATH": os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "True\n"
