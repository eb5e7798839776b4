"""TensorBoard's curves of a run, where tensorboardX is installed.

Why not Lightning's TensorBoardLogger: it hands its lines to a thread through a queue, and closing waits for that
thread. Ctrl-C or SIGTERM in the middle of a hand-over can lose the notice that wakes the queue, and closing then waits
for ever, as was seen on a busy machine. A few numbers per epoch can be written at once.
"""

import contextlib
import time
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger


class EventFile(Logger):
    """Numbers into an event file, each line written before the call returns."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        import tensorboardX  # noqa: F401 — whether it is there is asked now

        self.folder = folder
        self.events: Any = None  # the open file, from the first number on

    @property
    def name(self) -> str:
        return self.folder.parent.name

    @property
    def version(self) -> str:
        return self.folder.name

    def log_hyperparams(self, *_: Any, **__: Any) -> None:
        """The run's folder has its recipe."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import scalar

        if self.events is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.events = EventsWriter(str(self.folder / "events"))
        for name, value in metrics.items():
            self.events.write_event(Event(wall_time=time.time(), step=step or 0, summary=scalar(name, float(value))))
        self.events.flush()

    def finalize(self, status: str) -> None:
        if self.events is not None:
            self.events.close()
        self.events = None


def tensorboard(folder: Path) -> Any:
    """The logger of a run in this folder; False where tensorboardX is not installed."""
    with contextlib.suppress(ModuleNotFoundError):
        return EventFile(folder / "tensorboard")
    return False
