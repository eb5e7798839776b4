"""Options: bounds, YAML that is read strictly, flags as text,
and a --help that says of every option what it takes and what happens without it.
"""

import argparse
import dataclasses
import importlib
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from foveal.app import cli
from foveal.errors import FovealError
from foveal.options import Options, add_flags, from_flags, load_yaml, make, option, parsed, read_options
from foveal.tasks.task import all_tasks

STAGES = ("predict", "evaluate", "explain", "export", "bench")


@dataclass(frozen=True)
class Some(Options):
    count: int = option(3, "how many", least=1)
    small: int = option(0, "a small one", least=0, below=10)
    rate: float = option(0.5, "how fast", least=0)
    share: float | None = option(None, "which part; none: all", least=0, below=1)
    free: float = option(0.0, "any number")
    name: str = option("", "what it is called; nothing: as its file", metavar="NAME")
    kind: str = option("a", "which kind", ("a", "b"))
    loud: bool = option(False, "whether it is heard")
    quiet: bool = option(True, "whether it is not 100% loud")
    fields: dict[str, Any] = option({}, "what differs; nothing: the preset's")  # noqa: RUF009 — it is a field
    boxes: list[Any] = option([], "what is left out; nothing: none")  # noqa: RUF009


GOOD = [
    {"count": 1}, {"count": 2**31 - 1}, {"small": 9}, {"rate": 0}, {"rate": 1e15}, {"share": None}, {"share": 0},
    {"free": -1e15}, {"name": ""}, {"kind": "b"}, {"loud": True}, {"fields": {"a": 1}}, {"boxes": [[1]]},
]  # fmt: skip
BAD = [
    ({"count": 0}, "--count: expected an integer, at least 1, got 0"),
    ({"count": 1.0}, "--count: expected an integer, at least 1, got 1.0"),
    ({"count": True}, "--count: expected an integer, at least 1, got True"),
    ({"count": "3"}, "--count: expected an integer, at least 1, got '3'"),
    ({"count": None}, "--count: expected an integer, at least 1, got None"),
    ({"count": 2**31}, "--count: expected a number below 2³¹, got 2147483648"),
    ({"small": 10}, "--small: expected a number below 10, got 10"),
    ({"rate": -0.1}, "--rate: expected a number, at least 0, got -0.1"),
    ({"rate": math.nan}, "--rate: expected a number, at least 0, got nan"),
    ({"rate": math.inf}, "--rate: expected a number"),
    ({"rate": 1e308}, "--rate: expected a number below 1e+15, got 1e+308"),
    ({"share": 1.0}, "--share: expected a number, at least 0 and below 1, got 1.0"),
    ({"free": -1e308}, "--free: expected a number"),
    ({"name": 3}, "--name: expected a str, got 3"),
    ({"kind": "c"}, "--kind: expected one of a, b, got 'c'"),
    ({"loud": 1}, "--loud: expected true or false, got 1"),
    ({"fields": [1]}, "--fields: expected a dict, got [1]"),
    ({"boxes": "[]"}, "--boxes: expected a list, got '[]'"),
]


@pytest.mark.parametrize("values", GOOD)
def test_within_bounds(values):
    assert dataclasses.asdict(make(Some, "something", **values)) == dataclasses.asdict(Some()) | values


@pytest.mark.parametrize(("values", "message"), BAD)
def test_out_of_bounds_is_one_line(values, message):
    with pytest.raises(FovealError) as caught:
        make(Some, "something", **values)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_mistyped_name_is_answered_with_the_nearest():
    with pytest.raises(FovealError, match="no option of something is called 'cuont'; the nearest is 'count'"):
        make(Some, "something", cuont=3)


def test_text_may_be_a_path():
    assert make(Some, "something", name=Path("a/b")).name == "a/b"


def test_defaults_are_not_shared():
    one = Some()
    one.fields["a"] = 1
    assert Some().fields == {}


def test_they_are_written_and_read_as_yaml():
    some = Some(rate=1e-7, name="Riß: 3:44", fields={"stages": [{"width": 3}]}, share=0.25, quiet=False)
    assert load_yaml(some.text()) == dataclasses.asdict(some)


# --- YAML -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3:44", "3:44"),  # to YAML 1.1 it is 224 seconds
        ("190:20:30.15", "190:20:30.15"),
        ("1e-3", 0.001),  # to YAML 1.1 it is text
        ("1E5", 100000.0),
        ("-.5", -0.5),
        ("+7", 7),
        ("1_000", 1000),
        ("0x1f", 31),
        (".inf", math.inf),
        ("1.2.3", "1.2.3"),
        ("true", True),
        ("null", None),
        ("[1, 2.5, a]", [1, 2.5, "a"]),
        ("", None),
    ],
)
def test_plain_values(text, value):
    assert load_yaml(text) == value
    assert type(load_yaml(text)) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "YAML: expected every key once, got a twice"),
        ("a: {b: 1, b: 2}", "got b twice"),
        ("a: [1", "expected YAML, got"),
        ("[" * 5000 + "]" * 5000, "expected YAML, got lists within lists without end"),
        ("{a: " * 5000 + "}" * 5000, "expected YAML, got lists within lists without end"),
        ("!!python/object/apply:os.system ['true']", "expected YAML, got"),
        ("a: \x00", "expected YAML, got"),
        ("{[1]: 2}", "expected YAML, got"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(FovealError) as caught:
        load_yaml(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_recipe_of_a_file_or_by_its_name(tmp_path):
    (tmp_path / "quick.yaml").write_text("count: 7\nrate: 1e-3\n")
    (tmp_path / "empty.yaml").write_text("")
    assert (
        read_options("quick", Some, tmp_path)
        == read_options(str(tmp_path / "quick.yaml"), Some, None)
        == {"count": 7, "rate": 0.001}
    )
    assert read_options("empty", Some, tmp_path) == {}
    for name, text, message in (
        ("list", "- 1", "the recipe list: expected options and their values, got [1]"),
        ("twice", "count: 1\ncount: 2", "the recipe twice: YAML: expected every key once, got count twice"),
        ("typo", "cuont: 1", "no option in the recipe typo is called 'cuont'; the nearest is 'count'"),
    ):
        (tmp_path / f"{name}.yaml").write_text(text)
        with pytest.raises(FovealError) as caught:
            read_options(name, Some, tmp_path)
        assert message in str(caught.value)
    (tmp_path / "latin.yaml").write_bytes(b"name: Ri\xdf")
    with pytest.raises(FovealError, match="the recipe latin: expected a file that can be read"):
        read_options("latin", Some, tmp_path)
    with pytest.raises(FovealError, match="no recipe is called 'quik'; the nearest is 'quick'"):
        read_options("quik", Some, tmp_path)
    with pytest.raises(FovealError, match=r"cannot read nowhere\.yaml"):
        read_options("nowhere.yaml", Some, tmp_path)


# --- flags ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", "7", 7),
        ("count", "7.5", "7.5"),  # refused by its bounds, as it was typed
        ("rate", "1e-3", 0.001),
        ("rate", "nan", math.nan),
        ("share", "none", None),
        ("share", "0.5", 0.5),
        ("name", "3", "3"),
        ("name", "null", "null"),
        ("loud", "TRUE", True),
        ("loud", "yes", "yes"),
        ("fields", "{a: 1e-3}", {"a": 0.001}),
        ("fields", "{a: [", "{a: ["),
        ("boxes", "[[0, 1]]", [[0, 1]]),
    ],
)
def test_a_flag_s_text(name, text, value):
    assert repr(parsed(Some, name, text)) == repr(value)


def flags(*words):
    parser = argparse.ArgumentParser()
    add_flags(parser, Some)
    return from_flags(parser.parse_args(words), Some)


def test_only_what_was_given_is_there():
    assert flags() == {}
    assert flags("--count", "7", "--loud", "--quiet", "false") == {"count": 7, "loud": True, "quiet": False}


def test_a_switch_takes_no_input_for_its_value(monkeypatch):
    """`--loud photo.jpg` is a switch and an input."""
    seen = []
    monkeypatch.setitem(cli.COMMANDS, "do", "does")
    run = lambda args: seen.append((args.loud, args.words)) or 0  # noqa: E731

    def add_arguments(parser):
        parser.add_argument("words", nargs="*")
        add_flags(parser, Some)

    monkeypatch.setitem(
        importlib.sys.modules, "foveal.app.command.do", argparse.Namespace(add_arguments=add_arguments, run=run)
    )
    for words, expected in (
        (["--loud", "a.jpg"], ("true", ["a.jpg"])),
        (["a.jpg", "--loud", "false"], ("false", ["a.jpg"])),
        ([], (None, [])),
    ):
        assert cli.main(["do", *words]) == 0
        assert seen.pop() == expected


# --- help -------------------------------------------------------------------------------------------------------------

KINDS = {f"{task.name} recipe": task.recipe for task in all_tasks()}
KINDS |= {f"{task.name} {stage}": task.options(stage) for task in all_tasks() for stage in STAGES}
WITHOUT = ("; none: ", "; by default ", "; nothing: ")  # one of these says what happens without the option


def actions(kind):
    parser = argparse.ArgumentParser()
    add_flags(parser, kind)
    return [action for action in parser._actions if action.dest != "help"]


@pytest.mark.parametrize("name", KINDS)
def test_every_option_has_a_sentence_its_type_and_its_default(name):
    for action in actions(KINDS[name]):
        assert action.metavar, action.dest
        assert "…" not in action.metavar, action.dest
        assert action.help, action.dest
        assert len(action.help.split()) >= 2, f"{action.dest}: {action.help}"
        ends = action.help.endswith(")") and "(default: " in action.help
        assert ends or any(word in action.help for word in WITHOUT), (
            f"--{action.dest}: {action.help!r} does not say what happens without it"
        )


def test_an_option_s_default_is_in_its_help():
    texts = {action.dest: action.help for action in actions(Some)}
    assert texts["count"] == "how many (default: 3)"
    assert texts["loud"] == "whether it is heard (default: false)"
    assert texts["quiet"] == "whether it is not 100%% loud (default: true)"
    assert texts["name"] == "what it is called; nothing: as its file"
    metavars = {action.dest: action.metavar for action in actions(Some)}
    assert metavars == {
        "count": "N", "small": "N", "rate": "X", "share": "X", "free": "X", "name": "NAME", "kind": "a|b",
        "loud": "true|false", "quiet": "true|false", "fields": "YAML", "boxes": "YAML",
    }  # fmt: skip


# The words after `foveal`: every command, and where options depend on the first argument, every such argument.
COMMANDS = [[name] for name in cli.commands()]
COMMANDS += [["train", task.name] for task in all_tasks()]
COMMANDS += [["ablate", name] for task in all_tasks() for name in task.ablations()]
WITHOUT_FLAG = (*WITHOUT, "; without it, ", "; unless given, ")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_line_of_every_help_is_a_sentence_with_its_type_and_its_default(words):
    parser = cli.parser_of(words[0], words[1:])
    for action in parser._actions:
        name = " ".join(action.option_strings) or action.metavar
        if action.dest == "help" or action.help == argparse.SUPPRESS:
            continue
        assert action.nargs == 0 or action.choices or action.metavar, f"{name} has no type"
        assert action.metavar != "TEXT", f"{name} does not say which text"
        assert action.help, name
        assert len(action.help.split()) >= 2, f"{name}: {action.help!r} is no sentence"
        if not action.option_strings or action.required:
            continue
        default = re.search(r"\(default: (.*?)\)", action.help)
        assert default or any(word in action.help for word in WITHOUT_FLAG), (
            f"{name}: {action.help!r} does not say what happens without it"
        )
        if default and isinstance(action.default, int) and default[1].isdecimal():
            assert int(default[1]) == action.default, name
    help_text = parser.format_help()
    assert help_text.startswith(f"usage: foveal {' '.join(words)} ")


def test_the_help_of_an_ablation_names_the_folder_that_it_writes():
    text = next(action.help for action in cli.parser_of("ablate")._actions if action.dest == "out")
    assert "runs/ablate-WHAT-DATA" in text
