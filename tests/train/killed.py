"""A run of translation, and one that was killed in its third epoch and went on."""

import pytest
from safetensors.torch import load_file

from foveal.tasks.translate.module import Translate
from foveal.tasks.translate.run import train_translate


class Killed(Exception):  # noqa: N818 — no error of foveal
    pass


def killed_and_resumed(recipe, folder, monkeypatch, machine, seen=lambda task: None):
    """The weights of both. seen: called with the task after each step until the kill."""
    train_translate(recipe, folder / "whole", machine=machine)
    steps = Translate.training_step

    def dies(self, batch, number):
        if self.trainer.current_epoch == 2 and number == 1:
            raise Killed
        loss = steps(self, batch, number)
        seen(self)
        return loss

    monkeypatch.setattr(Translate, "training_step", dies)
    with pytest.raises(Killed):
        train_translate(recipe, folder / "killed", machine=machine)
    assert (folder / "killed" / "last.ckpt").exists()
    assert not (folder / "killed" / "model.safetensors").exists()
    monkeypatch.setattr(Translate, "training_step", steps)
    train_translate(recipe, folder / "killed", resume=True, machine=machine)
    return tuple(load_file(folder / name / "model.safetensors") for name in ("whole", "killed"))
