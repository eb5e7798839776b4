"""The documentation as a site: it builds without a network, every link leads somewhere,
and the map of the rooms is the code's.
"""

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import foveal

ROOT = Path(__file__).parent.parent
NO_NETWORK = (
    "import socket\n"
    "def refuse(*a, **k): raise OSError('no network here')\n"
    "socket.socket.connect = socket.create_connection = refuse\n"
)


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"scripts/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_map_shows_the_imports_that_there_are():
    rooms = script("map")
    found = rooms.edges(rooms.rooms())
    drawn = re.search(r"<!-- edges: .* -->", (ROOT / "docs/rooms.svg").read_text(encoding="utf-8"))[0]
    assert drawn == rooms.comment(found), "make map draws it anew"


def test_every_page_of_the_guides_is_in_the_navigation():
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f" {page.name}" in listed, page.name


def test_no_two_results_are_listed_by_the_same_title():
    titles = re.findall(r"^- \[(.*)\]\(", script("site").results(), re.MULTILINE)
    assert len(titles) > 30
    assert len(set(titles)) == len(titles)


def described():
    """What the API's pages describe: (file in the package, name)."""
    site = script("site")
    return {
        (file.relative_to(site.PACKAGE).as_posix(), name)
        for _, _, places in site.PAGES.values()
        for file, names in site.files_of(places).items()
        for name in names
    }


@pytest.mark.parametrize("name", sorted(set(foveal.__all__) - {"__version__"}))
def test_every_public_name_is_on_a_page_of_the_api(name):
    value = getattr(foveal, name)
    if not inspect.ismodule(value):
        file = value.__module__.removeprefix("foveal.").replace(".", "/") + ".py"
        assert (file, value.__name__) in described()
        return
    room = {"mask": "core/pattern", "score": "core/score"}.get(name, name)
    assert any(Path(file).is_relative_to(room) for file, _ in described()), f"no page describes {room}/"


def test_every_model_is_on_a_page_of_the_api_and_every_page_in_the_navigation():
    names = {name for file, name in described() if file.startswith("models/")}
    assert names >= {"Icam", "Vit", "Swin", "Pvt", "EfficientNetLite", "Transformer", "Seq2Seq"}
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in script("site").PAGES:
        assert f" api/{page}.md" in navigation, page


class Page(HTMLParser):
    def __init__(self, file):
        super().__init__()
        self.links, self.names = [], set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        facts = dict(attributes)
        self.names |= {facts[key] for key in ("id", "name") if facts.get(key)}
        self.links += [(tag, facts[key]) for key in ("href", "src") if facts.get(key)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT / "src"))), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "scripts/site.py"), "--site-dir", str(folder / "site")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=400, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.mark.slow
def test_every_link_leads_somewhere_and_nothing_comes_from_outside(site):
    pages = {file: Page(file) for file in site.rglob("*.html")}
    assert len(pages) > 40
    broken = []
    for file, page in pages.items():
        for tag, link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if tag != "a":  # a link may lead away; what a page needs may not
                    broken.append(f"{file.name} needs {link}")
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            missing = file.name != "404.html" and (
                not target.exists()
                or (parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names)
            )
            broken += [f"{file.relative_to(site)}: {link}"] if missing and not parts.fragment.startswith("__") else []
    assert not broken


@pytest.mark.slow
def test_the_api_has_a_page_per_room_with_its_equations(site):
    layers = (site / "api/layers.html").read_text(encoding="utf-8")
    assert "MultiHead" in layers
    assert "Departs from the paper" in layers
    door = (site / "api/tasks.html").read_text(encoding="utf-8")
    for name in ("train", "load", "list_models", "Model", "Task", "Predictor"):
        assert 'id="foveal.tasks.' in door
        assert re.search(rf'id="foveal\.tasks\.\w+\.{name}"', door), name
