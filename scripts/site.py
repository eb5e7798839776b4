"""Put the pages of the documentation together in build/site-source, and build build/site of them. Nothing is fetched.

README becomes the home page, docs/ the guides, results/ an index and a page per table; the API comes from the
docstrings, one page per room.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE, SITE = ROOT / "build/site-source", ROOT / "build/site"
PACKAGE = ROOT / "src/foveal"
LABELS = ("Symbols", "Paper", "Departs from the paper", "Cost", "Example")
WIDEST = 92  # columns of an equation on a page
HARNESS = "training" if (PACKAGE / "training").is_dir() else "train"
# page → its title, what it begins with, and its files: FILE, FILE:NAME,NAME, or a folder for all of its files
PAGES = {
    "tasks": (
        "The door and tasks",
        "`foveal.train`, `foveal.load` and the model that it returns; below them the protocol that a task follows.",
        [
            "tasks/train.py:train,Run", "tasks/load.py:load,list_models", "tasks/model.py:Model", "tasks/stages.py",
            "tasks/classify/predict.py:Prediction", "tasks/segment/predict.py:Segmentation",
            "tasks/translate/predict.py:Translation", "tasks/task.py",
            "tasks/ablation.py", "options.py:option,Options", f"{HARNESS}/recipe.py:Recipe",
            f"{HARNESS}/harness.py:Training,Machine,Data", f"{HARNESS}/module.py", "errors.py:FovealError",
        ],
    ),
    "attention": (
        "Attention and watch",
        "`foveal.attend`, its kernels, and what sees into it.",
        ["core/attend.py", "core/watch.py:watch,Weights,Statistics,Record", "core/linear.py"],
    ),
    "masks": (
        "Masks and scores", "A mask is a predicate on (i, j). True = may look.",
        ["core/mask.py:Mask", "core/pattern", "core/score"],
    ),
    "layers": ("Layers", "Parameters around attention, for tokens: `foveal.layers`.", ["layers"]),
    "vision": ("Feature maps", "Attention on feature maps (B, C, h, w): `foveal.vision`.", ["vision"]),
    "position": ("Positions", "Where a token is: `foveal.position`.", ["position"]),
    "models": (
        "Models", "`foveal.create(name, **config)`, and what there is: `foveal.models`.", ["models/zoo.py", "models"],
    ),
    "data": (
        "Data", "Images and sentences with their splits, read from the field's formats or rendered: `foveal.data`.",
        ["data/read.py", "data/source.py", "data/parallel.py", "data", "data/formats"],
    ),
    "losses": ("Losses", "What training minimises: `foveal.losses`.", ["losses"]),
    "metrics": ("Metrics", "What a result is worth, with intervals: `foveal.metrics`.", ["metrics"]),
    "explain": (
        "Explanations",
        "`foveal.check`, which examines anybody's attention, and what maps and heads are worth: `foveal.explain`.",
        ["explain/check.py:check", "explain"],
    ),
    "prune": (
        "Pruning", "`foveal.prune`, which makes a module smaller, and how channels are chosen.",
        ["deploy/prune_module.py:prune", "deploy/prune.py:prune"],
    ),
    "report": ("Reports", "Tables, pictures and progress: `foveal.report`.", ["report"]),
    "runtime": (
        "Runtime", "What runs without torch.",
        ["runtime/card.py", "runtime/exported.py", "runtime/image.py:open_image,BadImage", "runtime/decode"],
    ),
}  # fmt: skip


def main() -> int:
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SOURCE)
    shutil.copytree(ROOT / "results", SOURCE / "results")
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, SOURCE)
    (SOURCE / "index.md").write_text((ROOT / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    for page in SOURCE.glob("*.md"):
        page.write_text(linked(page.read_text(encoding="utf-8")), encoding="utf-8")
    write("results/index.md", results())
    write("examples.md", examples())
    write("gallery.md", gallery())
    write(
        "api/index.md",
        "# API\n\n"
        + "\n".join(f"- [{title}]({name}.md): {words or title}" for name, (title, words, _) in PAGES.items()),
    )
    for name, (title, words, places) in PAGES.items():
        write(
            f"api/{name}.md",
            "\n\n".join([f"# {title}", words, *(described(*one) for one in files_of(places).items())]),
        )
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--clean",
        "--config-file",
        str(ROOT / "mkdocs.yml"),
    ]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # an advertisement
    return subprocess.run([*command, *sys.argv[1:]], cwd=ROOT, env=environment, check=False).returncode


def write(name: str, text: str) -> None:
    (SOURCE / name).parent.mkdir(parents=True, exist_ok=True)
    (SOURCE / name).write_text(text + "\n", encoding="utf-8")


def linked(text: str) -> str:
    """Links as the site has them: docs/ is its root, and a folder is its index."""
    text = re.sub(r"\]\((?:\.\./)?docs/", "](", text)
    text = re.sub(r"\]\(\.\./(results/|CONTRIBUTING|CHANGELOG)", r"](\1", text)
    text = re.sub(r"\]\((?:\.\./)?README\.md", "](index.md", text)
    text = re.sub(r"\]\((?:\.\./)?results/?\)", "](results/index.md)", text)
    text = re.sub(r"\]\((?:\.\./)?tests/[^)]*\)", "](examples.md)", text)
    return re.sub(r"\]\((?:\.\./)?examples/?[^)]*\)", "](examples.md)", text)


def files_of(places: list[str]) -> dict[Path, list[str]]:
    """The files of a page in its order, and the names that it describes of each; what stands first stands once."""
    found: dict[Path, list[str]] = {}
    for place in places:
        for file, names in listed(place):
            found.setdefault(file, names)
    return found


def listed(place: str) -> Iterator[tuple[Path, list[str]]]:
    """Files, and the names in each that its page describes."""
    path, _, names = place.partition(":")
    for file in sorted((PACKAGE / path).glob("*.py")) if (PACKAGE / path).is_dir() else [PACKAGE / path]:
        found = names.split(",") if names else public(file)
        if found and file.name != "__init__.py":
            yield file, found


def public(file: Path) -> list[str]:
    """The classes and functions that are not private; a helper that checks arguments is no news to anybody."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    named = [one.name for one in tree.body if isinstance(one, (ast.ClassDef, ast.FunctionDef))]
    return [name for name in dict.fromkeys(named) if not name.startswith(("_", "check_", "expect_"))]


def described(file: Path, names: list[str]) -> str:
    """The head of a file, as its docstring has it, then what is in it."""
    module = ".".join(("foveal", *file.relative_to(PACKAGE).with_suffix("").parts))
    title, _, rest = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or file.stem).partition("\n\n")
    parts = [
        f"## {file.stem}",
        f"`{module}`: {title}",
        head(rest),
        *(f"::: {module}.{name}\n    options:\n      heading_level: 3" for name in names),
    ]
    return "\n\n".join(part for part in parts if part.strip())


def head(text: str) -> str:
    """Equations stay code, a long line of them broken where one ends; a line per label becomes an item of a list."""
    labels, lines, before = "|".join(LABELS), list[str](), ""
    for line in text.strip("\n").splitlines():
        item = re.sub(rf"^({labels}): (.*)$", r"- **\1**: \2", line)
        lines += [""] if item.startswith("- **") and not before.startswith("- **") else []
        lines += (
            re.sub(r"([;,]) {3,}(?=\S)", r"\1\n    ", item).split("\n")
            if item.startswith("    ") and len(item) > WIDEST
            else [item]
        )
        before = item
    return "\n".join(lines)


def results() -> str:
    lines = [
        "# Results",
        "",
        (
            "What was measured, each with its machine, versions and commit. "
            "`foveal bench`, `foveal ablate` and `foveal evaluate` write such tables."
        ),
        "",
    ]
    files = sorted((ROOT / "results").glob("*.md"))
    titles = [title_of(file) for file in files]
    for file, title in zip(files, titles, strict=True):
        several = titles.count(title) > 1  # as of one bench on two machines: the file's name tells them apart
        lines.append(f"- [{title}{f' ({file.stem})' if several else ''}]({file.name})")
    return "\n".join(lines)


def title_of(file: Path) -> str:
    heads = (line[2:] for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("# "))
    return next(heads, file.stem)


def examples() -> str:
    parts = [
        "# Examples",
        "Each runs in seconds: `python examples/NAME.py`. The notebook is `examples/attention.ipynb`.",
    ]
    scripts = sorted((ROOT / "examples").glob("*.py"))
    parts += [f"## {file.name}\n\n```python\n{file.read_text(encoding='utf-8')}```" for file in scripts]
    return "\n\n".join(parts)


def gallery() -> str:
    """Every mechanism, drawn by itself."""
    folder = SOURCE / "gallery"
    subprocess.run(
        [sys.executable, "-m", "foveal", "show", "--gallery", str(folder)],
        check=True,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )
    parts = [
        "# Gallery",
        "Who looks at what. `foveal show NAME` explains one, `foveal show --gallery FOLDER` draws all of them.",
        "![all of them](gallery.png)",
    ]
    parts += [
        f"## {file.stem}\n\n![{file.stem}](gallery/{file.name})"
        for file in sorted(folder.glob("*.png"))
        if file.stem != "gallery"
    ]
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
