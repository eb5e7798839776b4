"""Models on the Hugging Face hub, by their id: hf://OWNER/NAME. Only safetensors and JSON are read."""

import sys
from pathlib import Path
from typing import Any

from foveal.errors import FovealError, MissingPackage, naming_extras
from foveal.runtime.packaged import FILE


def download(repo: str) -> Path:
    """The model file of a repository, in the hub's own cache."""
    hub = _library(repo)
    print(f"asking the hub for {repo}", file=sys.stderr, flush=True)
    try:
        return Path(hub.hf_hub_download(repo, FILE))
    except Exception as error:  # noqa: BLE001 — the network, the hub and the cache have many ways to say no
        reason = " ".join(str(error).split())[:160]
        raise FovealError(
            f"the model hf://{repo}: expected OWNER/NAME of a model on the hub that can be reached, got {reason}"
        ) from None


def upload(folder: Path, repo: str, **options: Any) -> str:
    """Create the repository if it is not there, and upload the folder; the address of the commit."""
    hub = _library(repo)
    try:
        hub.create_repo(repo, exist_ok=True)
        return str(hub.upload_folder(repo_id=repo, folder_path=str(folder), **options))
    except Exception as error:  # noqa: BLE001 — as above
        raise FovealError(f"cannot upload to {repo}: {' '.join(str(error).split())[:160]}") from None


def _library(repo: str) -> Any:
    try:
        with naming_extras():
            import huggingface_hub
    except MissingPackage as error:
        raise FovealError(f"the model hf://{repo}: {error}") from None
    return huggingface_hub
