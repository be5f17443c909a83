"""Encoders: texts in, one vector per text out (for the CNN, word numbers)."""

from __future__ import annotations

from robusttc.encoders.base import Encoder, encode_with
from robusttc.encoders.cache import VectorCache, default_cache_folder
from robusttc.encoders.cnn import CnnEncoder, WordEncoder
from robusttc.encoders.factory import DEFAULT_ENCODER, ENCODER_NAMES, load_encoder, make_encoder
from robusttc.encoders.features import FeatureEncoder
from robusttc.encoders.fine_tuning import FineTuningSettings, fine_tune
from robusttc.encoders.inputs import DenseInputs, FrozenInputs, PreparedTasks, WordInputs, distinct_texts
from robusttc.encoders.multilingual import MultilingualEncoder
from robusttc.encoders.paired import PairedEncoder
from robusttc.encoders.remote import RemoteEncoder
from robusttc.encoders.sentence import SentenceEncoder, resolve_device
from robusttc.encoders.static import StaticEncoder

__all__ = [
    "DEFAULT_ENCODER",
    "ENCODER_NAMES",
    "CnnEncoder",
    "DenseInputs",
    "Encoder",
    "FeatureEncoder",
    "FineTuningSettings",
    "FrozenInputs",
    "MultilingualEncoder",
    "PairedEncoder",
    "PreparedTasks",
    "RemoteEncoder",
    "SentenceEncoder",
    "StaticEncoder",
    "VectorCache",
    "WordEncoder",
    "WordInputs",
    "default_cache_folder",
    "distinct_texts",
    "encode_with",
    "fine_tune",
    "load_encoder",
    "make_encoder",
    "resolve_device",
]
