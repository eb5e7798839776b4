"""A run of translation, and one that was killed in its third epoch and resumed."""

import pytest
from safetensors.torch import load_file

from foveal.tasks.task import find_task
from foveal.tasks.translate.module import TranslateModule
from foveal.training.harness import train


class Killed(Exception):  # noqa: N818 — no error of foveal
    pass


def train_translate(recipe, folder, **options):
    return train(find_task("translate"), recipe, folder, **options)


def killed_and_resumed(recipe, folder, monkeypatch, machine, seen=lambda module: None):
    """The weights of both. seen: called with the module after each step until the kill."""
    train_translate(recipe, folder / "whole", machine=machine)
    steps = TranslateModule.training_step

    def dies(self, batch, number):
        if self.trainer.current_epoch == 2 and number == 1:
            raise Killed
        loss = steps(self, batch, number)
        seen(self)
        return loss

    monkeypatch.setattr(TranslateModule, "training_step", dies)
    with pytest.raises(Killed):
        train_translate(recipe, folder / "killed", machine=machine)
    assert (folder / "killed" / "last.ckpt").exists()
    assert not (folder / "killed" / "model.safetensors").exists()
    monkeypatch.setattr(TranslateModule, "training_step", steps)
    train_translate(recipe, folder / "killed", resume=True, machine=machine)
    return tuple(load_file(folder / name / "model.safetensors") for name in ("whole", "killed"))
