"""From files of text to batches of ids: readers → raw text on disk → tokenizers → ids on disk → token-budget batches.

Names load on first use: reading lines or checking options does not load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.data.batches import TokenBatches
    from regard.data.corpus import EncodedCorpus, encode_corpus
    from regard.data.filters import FilterOptions, FilterReport
    from regard.data.nbest import read_nbest
    from regard.data.noise import NoiseOptions
    from regard.data.pair_batch import PairBatch, collate, collate_sources
    from regard.data.raw import RawCorpus, open_raw
    from regard.data.readers import CorpusFiles, Pair, read_jsonl, read_lines, read_parallel, read_tsv
    from regard.data.split import Split, hold_out
    from regard.data.tokenizers.base import TextTokenizer
    from regard.data.tokenizers.build import Tokenizers, build_tokenizers, load_tokenizer, open_vocabulary
    from regard.data.tokenizers.exact import ByteTokenizer, CharTokenizer, WordTokenizer, train_exact
    from regard.data.tokenizers.huggingface import HuggingFaceTokenizer
    from regard.data.tokenizers.options import TokenizerOptions, vocabulary_size
    from regard.data.tokenizers.sentencepiece import SentencePieceTokenizer, train_sentencepiece

__all__ = [
    "ByteTokenizer",
    "CharTokenizer",
    "CorpusFiles",
    "EncodedCorpus",
    "FilterOptions",
    "FilterReport",
    "HuggingFaceTokenizer",
    "NoiseOptions",
    "Pair",
    "PairBatch",
    "RawCorpus",
    "SentencePieceTokenizer",
    "Split",
    "TextTokenizer",
    "TokenBatches",
    "TokenizerOptions",
    "Tokenizers",
    "WordTokenizer",
    "build_tokenizers",
    "collate",
    "collate_sources",
    "encode_corpus",
    "hold_out",
    "load_tokenizer",
    "open_raw",
    "open_vocabulary",
    "read_jsonl",
    "read_lines",
    "read_nbest",
    "read_parallel",
    "read_tsv",
    "train_exact",
    "train_sentencepiece",
    "vocabulary_size",
]

_HOME = {
    "batches": ("TokenBatches",),
    "corpus": ("EncodedCorpus", "encode_corpus"),
    "filters": ("FilterOptions", "FilterReport"),
    "nbest": ("read_nbest",),
    "noise": ("NoiseOptions",),
    "pair_batch": ("PairBatch", "collate", "collate_sources"),
    "raw": ("RawCorpus", "open_raw"),
    "readers": ("CorpusFiles", "Pair", "read_jsonl", "read_lines", "read_parallel", "read_tsv"),
    "split": ("Split", "hold_out"),
    "tokenizers.base": ("TextTokenizer",),
    "tokenizers.build": ("Tokenizers", "build_tokenizers", "load_tokenizer", "open_vocabulary"),
    "tokenizers.exact": ("ByteTokenizer", "CharTokenizer", "WordTokenizer", "train_exact"),
    "tokenizers.huggingface": ("HuggingFaceTokenizer",),
    "tokenizers.options": ("TokenizerOptions", "vocabulary_size"),
    "tokenizers.sentencepiece": ("SentencePieceTokenizer", "train_sentencepiece"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
