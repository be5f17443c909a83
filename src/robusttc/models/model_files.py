"""Trained models on disk: a folder of one safetensors file and two JSON files, each with its SHA-256.

* ``manifest.json``: what kind of model it is, of which version, the size and hash of the other two files, the
  type and shape of every array, and a hash of all this;
* ``settings.json``: values;
* ``arrays.safetensors``: arrays.

Nothing in them is ever run, and no path in them is followed: the names of the files are fixed.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from robusttc.encoders import PairedEncoder
from robusttc.errors import RobustTCError, StoreError, UsageError, quote
from robusttc.files import InvalidJSONError, decode_json, encode_json, find_folder, write_folder

FORMAT = "robusttc model"
ARRAY = "__array__"  # stands for an array among the values
MANIFEST, SETTINGS, ARRAYS = "manifest.json", "settings.json", "arrays.safetensors"
MAX_MANIFEST_BYTES = 2**26
MAX_SETTINGS_BYTES = 2**28
# A folder that is being replaced is read again: its files may be of two models.
ATTEMPTS = 3

TODO_AGAIN = "save the model again, or bring the folder back from a copy"

WHOLE_NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = ("bool", *WHOLE_NUMBERS, "float16", "float32", "float64")
# By their names in safetensors: I64, U8, F16, BOOL.
TYPES = {np.dtype(name).kind.upper() + str(8 * np.dtype(name).itemsize): name for name in DTYPES[1:]}
TYPES["BOOL"] = "bool"


def write_model_folder(
    folder: str | os.PathLike[str],
    *,
    kind: str,
    version: int,
    settings: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write a model into a folder; killed at any moment, it leaves the old model or the new one.

    A model of the same kind in the folder is replaced; any other folder that is not empty is refused.
    `version` is that of the form of `settings`, which JSON can hold, and `arrays`, which are kept bit for
    bit.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = Path(place) / "model"
    ...     write_model_folder(folder, kind="demo", version=1, settings={"a": 1}, arrays={"b": np.arange(2)})
    ...     read_model_folder(folder, kind="demo", version=1)
    ({'a': 1}, {'b': array([0, 1])})
    """
    from safetensors.numpy import save

    place = Path(os.path.realpath(folder))
    checked = {name: check_array(name, array) for name, array in arrays.items()}
    contents = {SETTINGS: encode_json(dict(settings), where="settings").encode(), ARRAYS: save(checked)}
    body = {
        "format": FORMAT,
        "kind": kind,
        "version": version,
        "files": {name: describe_bytes(content) for name, content in contents.items()},
        "arrays": {name: [str(array.dtype), list(array.shape)] for name, array in checked.items()},
    }
    contents[MANIFEST] = encode_json({**body, "sha256": hash_body(body)}).encode()
    check_replaceable(place, kind)
    try:
        write_folder(place, contents)
    except OSError as error:
        raise StoreError(
            "the model cannot be written", where=repr(str(place)), got=error.strerror or str(error)
        ) from error


def check_array(name: str, array: object) -> NDArray[Any]:
    """Return an array as safetensors takes it: numbers in one block of memory, little-endian."""
    values = np.asarray(array)
    if values.dtype.name not in DTYPES:
        raise UsageError(
            "an array does not hold numbers",
            where=f"array {quote(name)}",
            got=str(values.dtype),
            expected=f"one of {', '.join(DTYPES)}",
        )
    return np.array(values, dtype=values.dtype.newbyteorder("<"), order="C")


def describe_bytes(content: bytes) -> dict[str, Any]:
    """Return the size and hash of a file's content."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def hash_body(body: Mapping[str, Any]) -> str:
    """Return the hash of a manifest, in its one way of writing."""
    return hashlib.sha256(encode_json(dict(body)).encode()).hexdigest()


def check_replaceable(folder: Path, kind: str) -> None:
    """Refuse a folder that holds anything but a model of this kind."""
    if not folder.exists():
        return
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else None
    if found == set():
        return
    if found is not None and MANIFEST in found and found <= {MANIFEST, SETTINGS, ARRAYS}:
        try:
            held = parse_json(read_regular(folder / MANIFEST, MAX_MANIFEST_BYTES), folder / MANIFEST)
        except StoreError:
            held = {}
        if held.get("format") == FORMAT and held.get("kind") == kind:
            return
    raise UsageError(
        "the folder holds something else",
        where=repr(str(folder)),
        got="a file" if found is None else quote(sorted(found)[:3]),
        expected=f"a new or empty folder, or one with a saved {kind} model",
        todo="give another folder, or empty this one yourself",
    )


def read_model_folder(
    folder: str | os.PathLike[str], *, kind: str, version: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a model that `write_model_folder` wrote; everything is checked before anything is given.

    A StoreError if the folder or a file is missing, damaged, of another kind or of a newer `version`.
    """
    place = Path(os.path.realpath(folder))
    for attempt in range(ATTEMPTS):
        standing = find_folder(place)
        before = identity_of(standing)
        try:
            return read_standing(standing, kind, version)
        except StoreError:
            if attempt == ATTEMPTS - 1 or identity_of(find_folder(place)) == before:
                raise
    raise StoreError("the model is being replaced", where=repr(str(place)))  # pragma: no cover


def identity_of(folder: Path) -> tuple[int, int, int] | None:
    """Return what changes when a folder is replaced by another."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def read_standing(folder: Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read and check a model folder once."""
    if not folder.is_dir():
        raise StoreError("there is no such model folder", where=repr(str(folder)))
    manifest = check_manifest(folder / MANIFEST, kind, version)
    listed = manifest["files"]
    content = read_regular(folder / SETTINGS, MAX_SETTINGS_BYTES, size=listed[SETTINGS]["bytes"])
    mapped = map_regular(folder / ARRAYS, size=listed[ARRAYS]["bytes"])
    for name, found_bytes in ((SETTINGS, content), (ARRAYS, mapped)):
        if hashlib.sha256(found_bytes).hexdigest() != listed[name]["sha256"]:
            raise_damaged(folder / name, "its SHA-256 is not that of the manifest")
    settings = parse_json(content, folder / SETTINGS)
    arrays = view_arrays(mapped, folder / ARRAYS)
    found = {name: [str(array.dtype), list(array.shape)] for name, array in arrays.items()}
    if found != manifest["arrays"]:
        raise_damaged(folder / ARRAYS, "its arrays are not those of the manifest")
    return settings, arrays


def map_regular(path: Path, *, size: int) -> mmap.mmap:
    """Map a file that `open_regular` opens."""
    with open_regular(path, None, size=size) as file:
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise_damaged(path, str(error))


def view_arrays(mapped: mmap.mmap, path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a mapped safetensors file.

    Those in half precision belong to single tasks, of which there may be thousands: they stay on disk until
    they are used. Others are copied: compiled loops take read-only arrays for another type.
    """
    start = 8 + int.from_bytes(mapped[:8], "little")
    header = parse_json(mapped[8:start], path)
    arrays = {}
    try:
        for name, entry in header.items():
            first, last = entry["data_offsets"]
            dtype = np.dtype(TYPES[entry["dtype"]])
            count = (last - first) // dtype.itemsize
            view = np.frombuffer(mapped, dtype, count, start + first) if count else np.zeros(0, dtype)
            array = view.reshape(entry["shape"])
            arrays[name] = array if dtype == np.float16 else array.copy()
    except (ValueError, KeyError, TypeError) as error:
        raise_damaged(path, str(error))
    return arrays


def check_manifest(path: Path, kind: str, version: int) -> dict[str, Any]:
    """Read a manifest and refuse one that cannot be trusted or used."""
    manifest = parse_json(read_regular(path, MAX_MANIFEST_BYTES), path)
    if manifest.get("format") != FORMAT:
        raise_damaged(path, "it is not the manifest of a model")
    found_version, found_kind = manifest.get("version"), manifest.get("kind")
    if not isinstance(found_version, int) or isinstance(found_version, bool) or found_version < 1:
        raise_damaged(path, f"version {quote(found_version)}")
    # Before all else: a newer version may have other files and another way of hashing.
    if found_version > version and found_kind == kind:
        raise StoreError(
            "the model was written by a newer robusttc",
            where=repr(str(path)),
            got=f"version {found_version}",
            expected=f"at most version {version}",
            todo="install a newer robusttc",
        )
    body = {name: value for name, value in manifest.items() if name != "sha256"}
    if manifest.get("sha256") != hash_body(body):
        raise_damaged(path, "its SHA-256 is not that of its content")
    if found_kind != kind:
        raise StoreError(
            "the folder holds another kind of model",
            where=repr(str(path)),
            got=quote(found_kind),
            expected=quote(kind),
        )
    files = manifest.get("files")
    is_whole = (
        isinstance(files, dict)
        and set(files) == {SETTINGS, ARRAYS}
        and all(isinstance(file, dict) and set(file) == {"bytes", "sha256"} for file in files.values())
        and all(type(file["bytes"]) is int and isinstance(file["sha256"], str) for file in files.values())
        and isinstance(manifest.get("arrays"), dict)
    )
    if not is_whole:
        raise_damaged(path, "it does not list the files of a model")
    return manifest


def read_regular(path: Path, limit: int | None, *, size: int | None = None) -> bytes:
    """Read a file that `open_regular` opens."""
    with open_regular(path, limit, size=size) as file:
        return file.read()


@contextmanager
def open_regular(path: Path, limit: int | None, *, size: int | None = None) -> Iterator[BinaryIO]:
    """Open a plain file, or the one that a link leads to; refuse one too large or of another size."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise_damaged(path, "it is not a plain file")
        if size is not None and found.st_size != size:
            raise_damaged(path, f"{found.st_size:,} bytes where {size:,} were written")
        if limit is not None and found.st_size > limit:
            raise_damaged(path, f"{found.st_size:,} bytes, where {limit:,} is the most")
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise StoreError("a file of the model is missing", where=repr(str(path)), todo=TODO_AGAIN) from None
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(
            "a file of the model cannot be read", where=repr(str(path)), got=error.strerror or str(error)
        ) from error


def parse_json(content: bytes, path: Path) -> dict[str, Any]:
    """Read an object from strict JSON."""
    try:
        values = decode_json(content.decode("utf-8"))
    except (InvalidJSONError, ValueError) as error:
        raise_damaged(path, str(error))
    if not isinstance(values, dict):
        raise_damaged(path, type(values).__name__)
    return values


def raise_damaged(path: Path, got: str) -> NoReturn:
    """Report that a file is not what was written."""
    raise StoreError("a file of the model is damaged", where=repr(str(path)), got=got, todo=TODO_AGAIN)


def split_arrays(content: Any) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Take the arrays out of nested dictionaries and lists: values for JSON, and the arrays by number.

    Arrays are numbered in the order of keys, as JSON has them: a model that was loaded is saved alike.

    Examples
    --------
    >>> split_arrays({"a": 1, "b": [np.arange(2)]})
    ({'a': 1, 'b': [{'__array__': '0'}]}, {'0': array([0, 1])})
    """
    arrays: dict[str, NDArray[Any]] = {}

    def take(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            number = str(len(arrays))
            arrays[number] = value
            return {ARRAY: number}
        if isinstance(value, Mapping):
            return {key: take(value[key]) for key in sorted(value)}
        return [take(one) for one in value] if isinstance(value, list | tuple) else value

    return take(content), arrays


def join_arrays(values: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return the nested content that `split_arrays` took the arrays out of; tuples are lists then."""
    if isinstance(values, list):
        return [join_arrays(one, arrays) for one in values]
    if not isinstance(values, Mapping):
        return values
    if values.keys() == {ARRAY} and isinstance(values[ARRAY], str):
        return arrays[values[ARRAY]]
    return {key: join_arrays(one, arrays) for key, one in values.items()}


def describe_parameters(estimator: BaseEstimator, seed: int) -> dict[str, Any]:
    """Return the parameters of a fitted learner as JSON has them; an encoder that is an object is None."""
    found: dict[str, Any] = estimator.get_params(deep=False)
    for name in ("vectors", "model"):
        found[name] = None if found[name] is None else str(found[name])
    found["encoder"] = found["encoder"] if isinstance(found["encoder"], str) else None
    found["random_state"] = seed
    found["settings"] = None if found["settings"] is None else asdict(found["settings"])
    return found


def rebuild_parameters(
    values: Mapping[str, Any], *, reader: Any, device: str, settings: Callable[[Mapping[str, Any]], Any]
) -> dict[str, Any]:
    """Return the parameters that `describe_parameters` described.

    `reader` is the encoder of the file, which takes the place of an object; `settings` rebuilds settings.
    """
    found = {**values, "device": device}
    if found["encoder"] is None:
        # A fine-tuned encoder stands second in a pair.
        is_pair = found["tune"] is not None and isinstance(reader, PairedEncoder)
        found["encoder"] = reader.first if is_pair else reader
    if found["settings"] is not None:
        found["settings"] = settings(found["settings"])
    return found


@contextmanager
def rebuilding(folder: str | os.PathLike[str], *, todo: str) -> Iterator[None]:
    """Turn an error in rebuilding a model into a StoreError.

    Its bytes are those that were written; then only another program can have written nonsense.
    """
    try:
        yield
    except StoreError:
        raise
    except (RobustTCError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise StoreError(
            "the model cannot be read", where=quote(str(folder)), got=quote(str(error)), todo=todo
        ) from error
