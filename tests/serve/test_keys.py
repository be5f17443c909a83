"""Keys: issued once, stored as hashes, found in constant form, revoked at once."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from robusttc.errors import StoreError, UsageError
from robusttc.serve.keys import KeyFile, issue_key, list_keys, revoke_key


def test_a_key_is_known_until_it_is_revoked(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    admin, task = issue_key(path, task=None), issue_key(path, task="acme")
    keys = KeyFile(path)
    found = keys.find(admin)
    assert found is not None
    assert found.is_admin
    assert keys.find(task) == list_keys(path)[1]
    assert list_keys(path)[1].task == "acme"
    revoke_key(path, found.id)
    assert keys.find(admin) is None
    assert keys.find(task) is not None


def test_the_file_holds_no_key_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    secret = issue_key(path, task=None)
    assert secret.split("_", 2)[2] not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "change", [lambda key: key[:-1] + "!", lambda key: key + "a", lambda _: "", str.upper]
)
def test_another_key_is_none(tmp_path: Path, change: object) -> None:
    path = tmp_path / "keys.json"
    secret = issue_key(path, task=None)
    assert callable(change)
    assert KeyFile(path).find(change(secret)) is None


def test_the_secret_of_another_key_does_not_open_it(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    one, other = issue_key(path, task="a"), issue_key(path, task="b")
    mixed = one[: len("rtc_") + 13] + other[len("rtc_") + 13 :]
    assert KeyFile(path).find(mixed) is None


def test_what_is_no_file_of_keys_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    for content in ("", "[]", '{"format": "x", "keys": []}', '{"format": "robusttc keys 1", "keys": [{}]}'):
        path.write_text(content)
        with pytest.raises(StoreError, match="no file of keys"):
            KeyFile(path)
    with pytest.raises(StoreError, match="cannot be read"):
        KeyFile(tmp_path / "missing.json")


def test_revoking_an_unknown_key_says_so(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    issue_key(path, task=None)
    with pytest.raises(UsageError, match="no such key"):
        revoke_key(path, "0" * 12)
