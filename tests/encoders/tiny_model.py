"""A sentence model with random weights: a model like any other, loaded in a moment."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from robusttc.encoders.model_folder import default_model_folder


def copy_small_files(folder: Path) -> Path:
    """Copy the default model without its weights."""
    shutil.copytree(
        default_model_folder(), folder, ignore=shutil.ignore_patterns("*.safetensors", "data_config.json")
    )
    return folder


def change_json(path: Path, **values: object) -> None:
    """Change some values of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def write_tiny_model(folder: Path) -> Path:
    """Write a BERT of two layers with random weights."""
    import torch
    from safetensors.torch import save_file
    from transformers import BertConfig, BertModel

    copy_small_files(folder)
    config = BertConfig(
        vocab_size=30_522, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        weights = BertModel(config).state_dict()  # type: ignore[no-untyped-call]
    (folder / "config.json").write_text(json.dumps({**config.to_dict(), "architectures": ["BertModel"]}))
    save_file({name: weight.contiguous() for name, weight in weights.items()}, folder / "model.safetensors")
    change_json(folder / "1_Pooling" / "config.json", word_embedding_dimension=32)
    return folder
