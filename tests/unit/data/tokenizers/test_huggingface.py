"""A tokenizer.json of one's own keeps its pieces, and its specials lose their power over text."""

from __future__ import annotations

import json
import sys

import pytest

from regard.data import HuggingFaceTokenizer
from regard.errors import DataError, MissingExtraError
from regard.protocols import UNK


def word_level(added: list[str]) -> bytes:
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"[UNK]": 0, "dog": 1, "runs": 2, "the": 3, "[CLS]": 4}, unk_token="[UNK]")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(added)
    made.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 4)])
    made.enable_padding(length=11)
    made.enable_truncation(2)
    return made.to_str().encode()


def byte_level() -> bytes:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(["the dog runs", "the dogs run"] * 20, trainer)
    return made.to_str().encode()


def test_ids_move_up_by_four_and_unknown_is_ours() -> None:
    tokenizer = HuggingFaceTokenizer(word_level([]), tags=["de"])
    assert tokenizer.encode("the dog runs fast") == [7, 5, 6, UNK]  # not cut at two, not padded, no [CLS] before it
    assert tokenizer.encode_lines(["dog", "", "cat"]) == [[5], [], [UNK]]
    assert tokenizer.decode([2, 7, 5, 3, 0, tokenizer.tag_id("de")]) == "the dog"
    assert tokenizer.pieces([1, 5, 9]) == ["<unk>", "dog", "<de>"]
    assert len(tokenizer) == 4 + 5 + 1


def test_text_that_spells_a_special_is_text() -> None:
    tokenizer = HuggingFaceTokenizer(byte_level())
    for text in ("<s> dog</s>", "</s>", "<pad> <unk>", "水 é"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert not {"<s>", "</s>"} & set(tokenizer.pieces(tokenizer.encode(text)))


def test_other_files_are_refused() -> None:
    pytest.importorskip("tokenizers")
    for junk in (b"", b"junk", b"[]", b"{}", json.dumps({"model": {"type": "none"}}).encode()):
        with pytest.raises(DataError, match=r"not a Hugging Face tokenizer\.json"):
            HuggingFaceTokenizer(junk)


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match=r"regard\[hf\]"):
        HuggingFaceTokenizer(b"{}")
