"""The card and the proof inside of a TorchScript (.pt) or torch.export (.pt2) archive: both are zip files,
and hold them as text in ROOT/extra/NAME.

Reading them runs nothing of the archive: not torch, but zipfile opens it, and what torch would run stays closed.
"""

import io
import lzma
import zipfile
import zlib
from pathlib import Path

from foveal.errors import FovealError, expect
from foveal.runtime.onnx_names import CARD, PROOF

LARGEST = 2**26  # bytes of a text that is read


def with_text(content: bytes, name: str, text: str) -> bytes:
    """The same archive with one more extra file, as torch.jit.load and torch.export.load find it.

    Not a byte of the graph and its weights changes.
    """
    archive = io.BytesIO(content)
    with zipfile.ZipFile(archive, "a") as opened:
        root = opened.namelist()[0].partition("/")[0]
        opened.writestr(zipfile.ZipInfo(f"{root}/extra/{name}"), text)  # without a day: the same proof, the same bytes
    return archive.getvalue()


def texts(file: Path) -> dict[str, str]:
    """What foveal wrote into the archive: name → text, of the card and the proof."""
    found = {}
    try:
        with zipfile.ZipFile(file) as opened:
            for one in opened.infolist():
                _, _, inside = one.filename.partition("/")
                folder, _, name = inside.partition("/")
                if folder == "extra" and name in (CARD, PROOF):
                    expect(
                        one.file_size <= LARGEST,
                        str(file),
                        f"a text of at most {LARGEST:,} bytes",
                        f"{one.file_size:,}",
                    )
                    found[name] = opened.read(one).decode()
    except (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        UnicodeDecodeError,
        EOFError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        reason = " ".join(str(error).split())[:160]
        raise FovealError(
            f"{file}: expected an archive of torch's, got a file that cannot be opened as one: {reason}"
        ) from None
    return found
