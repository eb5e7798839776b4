"""The command line: one line for what goes wrong, and the right exit status."""

import argparse
import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import foveal
from foveal.app import cli
from foveal.app.cli import main
from foveal.app.command.convert import KINDS
from foveal.errors import FovealError


def command(monkeypatch: pytest.MonkeyPatch, run: object) -> None:
    """A command `do` that runs this."""
    module = SimpleNamespace(add_arguments=lambda parser: parser.add_argument("--number", type=int), run=run)
    monkeypatch.setitem(sys.modules, "foveal.app.command.do", module)
    monkeypatch.setitem(cli.COMMANDS, "do", "does")


def fails(error: BaseException) -> object:
    def run(args: object) -> int:
        raise error

    return run


def test_a_command_gets_its_arguments_and_gives_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    command(monkeypatch, lambda args: args.number)
    assert main(["do", "--number", "7"]) == 7
    assert main(["do", "--debug", "--number", "0"]) == 0


def test_an_error_is_one_line_and_status_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    command(monkeypatch, fails(FovealError("what: expected this,\ngot that")))
    assert main(["do"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "foveal: error: what: expected this, got that\n"


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    command(monkeypatch, fails(FovealError("bad")))
    for arguments in (["--debug", "do"], ["do", "--debug"]):
        assert main(arguments) == 2
        err = capsys.readouterr().err
        assert "Traceback" in err
        assert err.endswith("foveal: error: bad\n")


def test_missing_torch_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command(monkeypatch, fails(ModuleNotFoundError("No module named 'torch'", name="torch")))
    assert main(["do"]) == 2
    assert (
        capsys.readouterr().err
        == "foveal: error: this needs torch, which is not installed; pip install foveal[torch]\n"
    )
    command(monkeypatch, fails(ModuleNotFoundError("No module named 'foveal.oops'", name="foveal.oops")))
    assert main(["do"]) == 1  # a fault of foveal's own is not hidden
    assert "foveal.oops" in capsys.readouterr().err


def test_without_torch_a_mechanism_is_still_described() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\nfrom foveal.app.cli import main\nsys.exit(main(['show', 'causal']))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=False)
    assert result.returncode == 2
    assert "keeps(i, j) = j ≤ i" in result.stdout
    assert result.stderr == "foveal: error: this needs torch, which is not installed; pip install foveal[torch]\n"


def test_ctrl_c_is_one_line_and_status_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    command(monkeypatch, fails(KeyboardInterrupt()))
    assert main(["do"]) == 130
    assert capsys.readouterr().err == "foveal: stopped\n"


@pytest.mark.parametrize(
    ("number", "status", "says"), [(signal.SIGINT, 130, "stopped"), (signal.SIGTERM, 143, "terminated")]
)
def test_signals_from_outside_too(number: int, status: int, says: str) -> None:
    code = (
        "import sys, time, types\nfrom foveal.app import cli\n"
        "slow = types.SimpleNamespace(add_arguments=lambda p: None, run=lambda a: (print('on', flush=True), "
        "time.sleep(600)))\n"
        "sys.modules['foveal.app.command.slow'], cli.COMMANDS['slow'] = slow, ''\nsys.exit(cli.main(['slow']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (status, f"foveal: {says}\n")


def test_an_unknown_command_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sohw"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("foveal: error: no command is called 'sohw'; the nearest is 'show'")
    assert err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["show", "--nothing"], ["show", "a", "b"], ["cite"], ["--nothing"]])
def test_arguments_that_do_not_fit_are_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("foveal: error: ")
    assert err.rstrip().endswith("--help")
    assert err.count("\n") == 1


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"foveal {foveal.__version__}\n"
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in cli.commands())
    assert main(["show", "--help"]) == 0
    assert "--gallery DIR" in capsys.readouterr().out
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().err


def test_every_command_loads() -> None:
    for name in cli.commands():
        assert main([name, "--help"]) == 0


def test_a_command_is_found_by_its_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    whole = set(cli.commands())
    monkeypatch.setattr(cli, "COMMANDS", {name: cli.COMMANDS[name] for name in ("train", "predict")})
    place, what = cli.commands()["evaluate"]
    assert place == "foveal.app.command.evaluate"
    assert what.startswith("how good a model is, with intervals")  # as its docstring says
    assert set(cli.commands()) == whole
    assert main(["evaluate", "--help"]) == 0
    assert "usage: foveal evaluate" in capsys.readouterr().out


def test_the_help_imports_no_command() -> None:
    code = "import sys; from foveal.app import cli; cli.main(['--help'])\n"
    code += "loaded = [name for name in sys.modules if name.startswith('foveal.app.command.') or name == 'torch']\n"
    code += "assert not loaded, loaded"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_commands_of_tasks_are_commands() -> None:
    assert set(cli.COMMANDS) < set(cli.commands())
    assert cli.commands()["translate"][0] == "foveal.tasks.translate.command"


def test_flags_may_stand_between_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(
        add_arguments=lambda parser: (
            parser.add_argument("words", nargs="+"),
            parser.add_argument("--number", type=int),
        ),
        run=lambda args: args.number + len(args.words),
    )
    monkeypatch.setitem(sys.modules, "foveal.app.command.do", module)
    monkeypatch.setitem(cli.COMMANDS, "do", "does")
    assert main(["do", "a", "--number", "7", "b", "c"]) == 10


# more than a buffer holds, less, and argparse's own
@pytest.mark.parametrize("arguments", [["show"], ["cite", "causal"], ["--version"]])
def test_a_closed_pipe_ends_in_silence(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}  # the interpreter then writes once more at its end
    command = [sys.executable, "-m", "foveal", *arguments]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False, env=environment)
    os.close(writer)
    assert result.returncode == 0
    assert result.stderr == b""


def test_a_terminal_that_knows_only_ascii_is_no_reason_to_stop() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = subprocess.run(
        [sys.executable, "-m", "foveal", "show", "causal"], capture_output=True, check=False, env=environment
    )
    assert result.returncode == 0
    assert result.stderr == b""
    assert b"|@@" in result.stdout


def test_the_help_of_convert_names_all_that_it_converts_to() -> None:
    assert [kind for kind in KINDS if kind not in cli.COMMANDS["convert"].lower()] == []


@pytest.mark.parametrize(
    "arguments", [["show"], ["cite", "causal"], ["--help"], ["train", "--help"], ["predict", "--help"]]
)
def test_what_needs_no_torch_does_not_wait_for_it(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom foveal.app.cli import main\nstatus = main(sys.argv[1:])\n"
        "sys.exit(status or ','.join(sorted({'torch', 'pytorch_lightning', 'transformers', 'onnxruntime'} & "
        "set(sys.modules))) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("error", "says"), [(SystemExit(0), "called sys.exit(0)"), (SystemExit("bye"), "called sys.exit('bye')")]
)
def test_what_is_run_does_not_end_foveal_as_if_all_were_well(
    error: BaseException, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command(monkeypatch, fails(error))
    assert main(["do"]) == 2
    assert says in capsys.readouterr().err


def test_a_bug_is_one_line_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    command(monkeypatch, fails(ZeroDivisionError("division by zero")))
    assert main(["do"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "ZeroDivisionError: division by zero; this is a bug of foveal: --debug shows where" in error


class OutOfMemoryError(RuntimeError):
    """As torch calls it."""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OutOfMemoryError("CUDA out of memory."),
        RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_no_memory_left_is_no_bug(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command(monkeypatch, fails(error))
    assert main(["do"]) == 2
    assert capsys.readouterr().err == "foveal: error: out of memory: lower --batch, --size or --jobs\n"


def test_a_model_that_has_no_room_may_be_the_fault_of_its_config(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["--config", "{queries: 100000000}"], ["--config={queries: 100000000}"]):
        command(monkeypatch, fails(MemoryError()))
        sys.modules["foveal.app.command.do"].add_arguments = lambda parser: parser.add_argument("--config")
        assert main(["do", *words]) == 2
        line = "foveal: error: out of memory: lower the numbers of --config, --batch, --size or --jobs\n"
        assert capsys.readouterr().err == line


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")  # noqa: PTH110
@pytest.mark.parametrize("arguments", [["show"], ["cite", "causal"]])
def test_a_full_disk_behind_the_output_is_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123
        result = subprocess.run(
            [sys.executable, "-m", "foveal", *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == 2
    assert result.stderr == "foveal: error: cannot write the output: No space left on device\n"


def test_a_file_that_cannot_be_read_is_not_reported_as_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command(monkeypatch, lambda args: len((tmp_path / "nowhere").read_bytes()))
    assert main(["do"]) == 2
    assert (
        capsys.readouterr().err
        == f"foveal: error: cannot read or write {tmp_path}/nowhere: No such file or directory\n"
    )


def test_the_device_is_the_same_everywhere() -> None:
    with_device = []
    for name, (place, _) in cli.commands().items():
        parser = argparse.ArgumentParser()
        importlib.import_module(place).add_arguments(parser)
        with_device += [(name, one.default) for one in parser._actions if "--device" in one.option_strings]
    names = ("train", "evaluate", "predict", "explain", "bench", "ablate", "translate")
    assert with_device == [(name, "auto") for name in names]


def test_a_closed_output_is_no_reason_to_fail() -> None:
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m foveal show >&-"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
