"""From options to tokenizers, into files and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data import (
    ByteTokenizer,
    CharTokenizer,
    TextTokenizer,
    TokenizerOptions,
    WordTokenizer,
    build_tokenizers,
    load_tokenizer,
    open_vocabulary,
    train_exact,
    train_sentencepiece,
    vocabulary_size,
)
from regard.errors import DamagedError, DataError, InputError, RecipeError
from regard.protocols import Tokenizer
from unit.data.nasty import NASTY
from unit.data.tokenizers.test_sentencepiece import corpus

ENGLISH = corpus(211, seed=5)
GERMAN = corpus(211, seed=11)


def every_kind() -> list[TextTokenizer]:
    return [
        *(train_exact(kind, NASTY, tags=["de", "<s>"]) for kind in ("char", "word", "byte")),
        train_sentencepiece(corpus(), vocab_size=317, tags=["de", "<s>"]).tokenizer,
    ]


@pytest.mark.parametrize("tokenizer", every_kind(), ids=lambda tokenizer: tokenizer.kind)
def test_files_hold_all_of_a_tokenizer(tokenizer: TextTokenizer) -> None:
    protocol: Tokenizer = tokenizer
    loaded = load_tokenizer({"kind": protocol.kind}, tokenizer.to_files())
    assert type(loaded) is type(tokenizer)
    assert len(loaded) == len(tokenizer)
    assert loaded.to_files() == tokenizer.to_files()
    assert [loaded.encode(text) for text in NASTY] == [tokenizer.encode(text) for text in NASTY]
    assert loaded.pieces(range(len(loaded))) == tokenizer.pieces(range(len(loaded)))


@pytest.mark.parametrize("tokenizer", every_kind(), ids=lambda tokenizer: tokenizer.kind)
def test_text_spells_neither_tags_nor_specials(tokenizer: TextTokenizer) -> None:
    tag = tokenizer.tag_id("de")
    assert tag == len(tokenizer) - 2
    for text in ("de", "<de>", "<s>", "</s> <pad>"):
        assert not {0, 2, 3, tag, tag + 1} & set(tokenizer.encode(text))
    assert tokenizer.pieces([tag, 0]) == ["<de>", "<pad>"]
    assert tokenizer.decode([2, tag, *tokenizer.encode("a"), 3, 0]) == tokenizer.decode(tokenizer.encode("a"))
    with pytest.raises(InputError, match="no tag 'dee'; did you mean 'de'"):
        tokenizer.tag_id("dee")


def test_tags_are_checked() -> None:
    with pytest.raises(InputError, match="was trained without tags"):
        ByteTokenizer().tag_id("de")
    for tags in (["a", "a"], [""]):
        with pytest.raises(InputError, match="tags must differ"):
            ByteTokenizer(tags)


def test_exact_tokenizers_do_not_sample() -> None:
    with pytest.raises(InputError, match="a byte tokenizer has one way"):
        ByteTokenizer().encode_sampled("a", seed=1, strength=0.1)


def test_damaged_files_are_refused() -> None:
    files = train_sentencepiece(corpus(), vocab_size=317).tokenizer.to_files()
    kind = {"kind": "sentencepiece"}
    for damaged, said in [
        ({}, r"vocabulary\.json is missing"),
        ({"vocabulary.json": b"{"}, "not a JSON object"),
        ({"vocabulary.json": b"[]"}, "not a JSON object"),
        ({"vocabulary.json": files["vocabulary.json"]}, r"sentencepiece\.model is missing"),
        (files | {"sentencepiece.model": b"junk"}, "stored tokenizer cannot be used"),
        (files | {"vocabulary.json": b'{"kind": "sentencepiece", "tags": 3}'}, "`tags` .* must be a list of strings"),
        (
            {"vocabulary.json": b'{"kind": "char", "tags": []}'},
            "of kind 'sentencepiece', but its files are of kind 'char'",
        ),
    ]:
        with pytest.raises(DamagedError, match=said):
            load_tokenizer(kind, damaged)
    with pytest.raises(DamagedError, match="'new', which this version does not know"):
        load_tokenizer({"kind": "new"}, {"vocabulary.json": b'{"kind": "new", "tags": []}'})
    with pytest.raises(DamagedError, match="must be a list of strings"):
        load_tokenizer({"kind": "char"}, {"vocabulary.json": b'{"kind": "char", "tags": [], "pieces": [1]}'})


def test_one_vocabulary_a_side_or_one_for_both() -> None:
    two = build_tokenizers(TokenizerOptions(vocab_size=321), lambda: ENGLISH, lambda: GERMAN, tags=["de"])
    assert (len(two.source), len(two.target)) == (322, 321)
    assert two.sentences[0].startswith("source vocabulary: 322 ids, sentencepiece unigram, identity normalisation")
    one = build_tokenizers(TokenizerOptions(vocab_size=321, joint=True), lambda: ENGLISH, lambda: GERMAN, tags=["de"])
    assert one.source is one.target
    assert one.sentences[0].startswith("joint vocabulary: 322 ids")


def test_sides_may_differ_in_kind() -> None:
    made = build_tokenizers(TokenizerOptions(kind="char", target_kind="word"), lambda: ["AB"], lambda: ["EY B IY"])
    assert made.source.pieces(made.source.encode("BA")) == ["B", "A"]
    assert made.target.decode(made.target.encode("B EY")) == "B EY"


def test_a_size_not_given_follows_the_text() -> None:
    made = build_tokenizers(TokenizerOptions(), lambda: ENGLISH, lambda: GERMAN)
    assert len(made.source) <= 1000  # the text is too small for the thousand of the rule, and that is no error
    assert "size chosen from the amount of text" in made.sentences[0]
    with pytest.raises(DataError, match="too small for `vocab_size` = 1000"):
        build_tokenizers(TokenizerOptions(vocab_size=1000), lambda: ENGLISH, lambda: GERMAN)


def test_the_rule_for_sizes() -> None:
    assert vocabulary_size(0) == 1000
    assert vocabulary_size(5 * 24_000) == 2500  # 40 · 24,000^0.4 = 2,261
    assert vocabulary_size(5 * 350_000) == 6500  # 40 · 350,000^0.4 = 6,602
    assert vocabulary_size(10**12) == 32_000


def test_lines_too_long_are_told() -> None:
    made = build_tokenizers(TokenizerOptions(vocab_size=321), lambda: [*ENGLISH, "x" * 9999], lambda: GERMAN)
    assert made.sentences[0].endswith("; too long to learn from: 1 of 212 lines")


def test_own_vocabularies(tmp_path: Path) -> None:
    model = train_sentencepiece(corpus(), vocab_size=317).tokenizer.to_files()["sentencepiece.model"]
    (tmp_path / "own.model").write_bytes(model)
    (tmp_path / "words").write_bytes("\ufeffdog\r\n<unk>\r\nHäuser\r\n".encode())
    options = TokenizerOptions(
        kind="sentencepiece",
        target_kind="word",
        source_model=str(tmp_path / "own.model"),
        target_model=str(tmp_path / "words"),
    )
    made = build_tokenizers(options, lambda: [], lambda: [])
    assert made.source.to_files()["sentencepiece.model"] == model
    assert made.target.encode("Häuser <unk> cat dog") == [6, 5, 1, 4]
    assert "from " in made.sentences[0]
    (tmp_path / "chars").write_text("a\n \nb\n", encoding="utf-8")
    assert isinstance(open_vocabulary(tmp_path / "chars", "char"), CharTokenizer)
    assert isinstance(open_vocabulary(tmp_path / "words", "word"), WordTokenizer)


def test_own_vocabularies_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad.model").write_bytes(b"junk")
    (tmp_path / "twice").write_bytes(b"a\nb\na\n")
    with pytest.raises(DataError, match=r"bad\.model: this is not a sentencepiece model"):
        open_vocabulary(tmp_path / "bad.model", "sentencepiece")
    with pytest.raises(DataError, match=r"no\.model: cannot be read \(No such file"):
        open_vocabulary(tmp_path / "no.model", "sentencepiece")
    with pytest.raises(DataError, match=r"twice: entry 1 of the vocabulary, 'a', is listed again"):
        open_vocabulary(tmp_path / "twice", "word")
    with pytest.raises(DataError, match="nothing: there is no such file"):
        open_vocabulary(tmp_path / "nothing", "char")
    with pytest.raises(RecipeError, match=r"for kind 'byte' must be a \.model or \.json file"):
        open_vocabulary(tmp_path / "twice", "byte")


def test_options_out_of_range_are_named() -> None:
    for arguments, key in [
        ({"vocab_size": 4}, "`vocab_size`"),
        ({"character_coverage": 0.0}, "`character_coverage`"),
        ({"character_coverage": 0.97}, "`character_coverage` must be from 0.98 to 1"),
        ({"character_coverage": float("nan")}, "`character_coverage`"),
        ({"min_frequency": 0}, "`min_frequency`"),
        ({"max_training_lines": 0}, "`max_training_lines`"),
        ({"joint": True, "target_kind": "char"}, "`joint`"),
        ({"joint": True, "target_model": "x"}, "`joint`"),
    ]:
        with pytest.raises(RecipeError, match=key):
            TokenizerOptions(**arguments)
