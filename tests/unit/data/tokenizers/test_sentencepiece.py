"""Subwords: exact round trips, equal bytes for equal text, sampling by seed, limits in words, foreign models."""

from __future__ import annotations

import hashlib
import io
import random
import threading
import unicodedata

import pytest
import sentencepiece as spm
from hypothesis import given
from hypothesis import strategies as st

from regard.data import SentencePieceTokenizer, train_sentencepiece
from regard.errors import DataError, RecipeError
from regard.protocols import UNK
from unit.data.nasty import NASTY, SPACE_SIGN

STEMS = ["dog", "run", "house", "Haus", "läuf", "lauf", "the", "über", "schnell", "slow", "Wort", "word", "green"]
WORDS = [stem + ending for stem in STEMS for ending in ("", "s", "en", "ing", "er", "est", "ly")]


def corpus(lines: int = 307, seed: int = 3) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randrange(1, 11))) for _ in range(lines)]


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def tokenizer(request: pytest.FixtureRequest) -> SentencePieceTokenizer:
    return train_sentencepiece(corpus(), vocab_size=317, model_type=request.param, tags=["de", "en"]).tokenizer


def test_nasty_lines_come_back_exactly(tokenizer: SentencePieceTokenizer) -> None:
    for text in NASTY:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert all(4 <= i < len(tokenizer) - 2 for i in ids)  # neither specials nor tags
    assert tokenizer.decode(tokenizer.encode(SPACE_SIGN)) == SPACE_SIGN.replace("▁", " ")


@given(text=st.text(st.characters(exclude_characters="\n\0▁", exclude_categories=["Cs"])))
def test_any_line_comes_back_exactly(tokenizer: SentencePieceTokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_nfkc_gives_the_normal_form_and_twice_changes_nothing() -> None:
    tokenizer = train_sentencepiece([*corpus(), *NASTY], vocab_size=401, normalization="nfkc").tokenizer
    assert tokenizer.encode("e\u0301") == tokenizer.encode("\u00e9")
    assert tokenizer.decode(tokenizer.encode("ﬁne Ｗｉｄｅ")) == "fine Wide"
    for text in NASTY:
        once = tokenizer.decode(tokenizer.encode(text))
        assert tokenizer.decode(tokenizer.encode(once)) == once
        assert unicodedata.normalize("NFKC", once) == once
    without = train_sentencepiece(corpus(), vocab_size=317).tokenizer
    assert without.encode("e\u0301") != without.encode("\u00e9")


def test_without_byte_fallback_other_characters_are_unknown() -> None:
    tokenizer = train_sentencepiece(corpus(), vocab_size=67, byte_fallback=False).tokenizer
    assert UNK in tokenizer.encode("dog 水")
    assert tokenizer.decode(tokenizer.encode("dog 水 run")) == "dog  run"


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_the_same_text_gives_the_same_bytes(model_type: str) -> None:
    digests = set()
    for attempt in range(5):
        spm.set_random_generator_seed(attempt)
        trained = train_sentencepiece(iter(corpus()), vocab_size=331, model_type=model_type, max_lines=211)
        digests.add(hashlib.sha256(trained.tokenizer.to_files()["sentencepiece.model"]).hexdigest())
    assert len(digests) == 1


def test_many_lines_are_sampled_evenly() -> None:
    lines = ["aa"] * 5000 + ["bb"] * 5000
    for count, known in ((1, 1), (50, 2)):  # one line has one letter; fifty have both
        tokenizer = train_sentencepiece(lines, vocab_size=600, exact_size=False, max_lines=count).tokenizer
        pieces = set(tokenizer.pieces(tokenizer.encode("ab")))
        assert len(pieces & {"▁a", "a", "b"}) == known


def test_the_sign_that_the_trainer_reserves_does_not_cost_a_line() -> None:
    trained = train_sentencepiece(["dog ▅"] * 7, vocab_size=600, exact_size=False)
    assert "d" in trained.tokenizer.pieces(trained.tokenizer.encode("dog"))


def test_encoding_many_is_encoding_each(tokenizer: SentencePieceTokenizer) -> None:
    expected = [tokenizer.encode(text) for text in NASTY]
    assert tokenizer.encode_lines(NASTY, workers=1) == tokenizer.encode_lines(NASTY, workers=3) == expected


def test_sampling_depends_on_the_seed_alone(tokenizer: SentencePieceTokenizer) -> None:
    texts = corpus(53, seed=7)
    first = [tokenizer.encode_sampled(text, seed=i, strength=0.2) for i, text in enumerate(texts)]
    backwards = [tokenizer.encode_sampled(texts[i], seed=i, strength=0.2) for i in reversed(range(53))][::-1]
    other = [tokenizer.encode_sampled(text, seed=i + 2**40 + 1, strength=0.2) for i, text in enumerate(texts)]
    assert first == backwards
    assert first != other
    assert first != [tokenizer.encode(text) for text in texts]
    assert [tokenizer.decode(ids) for ids in first] == texts

    found: dict[int, list[int]] = {}

    def sample(start: int) -> None:
        for i in range(start, 53, 2):
            found[i] = tokenizer.encode_sampled(texts[i], seed=i, strength=0.2)

    threads = [threading.Thread(target=sample, args=(start,)) for start in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i] for i in range(53)] == first


def test_a_corpus_too_small_for_the_size_tells_the_largest() -> None:
    with pytest.raises(
        DataError, match=r"too small for `vocab_size` = 5000: its text gives at most (\d+) pieces"
    ) as told:
        train_sentencepiece(corpus(), vocab_size=5000)
    largest = int(str(told.value).split("at most ")[1].split()[0])
    assert len(train_sentencepiece(corpus(), vocab_size=largest, tags=["x"]).tokenizer) == largest + 1
    assert len(train_sentencepiece(corpus(), vocab_size=5000, exact_size=False).tokenizer) == largest


def test_a_size_too_small_for_the_characters_tells_the_smallest() -> None:
    with pytest.raises(RecipeError, match=r"`vocab_size` must be at least (\d+)") as told:
        train_sentencepiece(corpus(), vocab_size=100)
    smallest = int(str(told.value).split("at least ")[1].split()[0])
    assert len(train_sentencepiece(corpus(), vocab_size=smallest).tokenizer) == smallest


def test_a_size_that_need_not_be_exact_makes_room_for_many_characters() -> None:
    draw = random.Random(1)
    lines = ["".join(chr(0x4E00 + min(int(draw.expovariate(0.01)), 900)) for _ in range(20)) for _ in range(300)]
    tokenizer = train_sentencepiece(lines, vocab_size=307, exact_size=False).tokenizer
    assert len(tokenizer) > 600
    assert tokenizer.decode(tokenizer.encode(lines[0])) == lines[0]


def test_lines_too_long_to_learn_from_are_counted(capfd: pytest.CaptureFixture[str]) -> None:
    trained = train_sentencepiece([*corpus(), "", "x" * 1_000_000, "水" * 1398], vocab_size=317)
    assert (trained.lines, trained.skipped_long) == (309, 2)  # 水 has three bytes: 4,194
    assert trained.tokenizer.encode("水")[-3:] == [4 + 0xE6, 4 + 0xB0, 4 + 0xB4]
    assert capfd.readouterr() == ("", "")  # the trainer's log is for nobody


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "holds no text"),
        (["", ""], "holds no text"),
        (["x" * 5000, "y" * 5000], "every line is over 4,192 bytes long"),
    ],
)
def test_nothing_to_learn_from_is_said(lines: list[str], said: str) -> None:
    with pytest.raises(DataError, match=said):
        train_sentencepiece(lines, vocab_size=317)


def test_lines_of_nothing_but_strange_signs_are_learned_or_refused_in_words() -> None:
    for text in (" ", "▁", "▅", "\u200b", "\ufeff", "\t", "a"):
        try:
            trained = train_sentencepiece([text], vocab_size=500, exact_size=False)
        except DataError:
            continue
        assert trained.tokenizer.decode(trained.tokenizer.encode("a b")) == "a b"


@pytest.mark.parametrize(
    "specials", [(-1, 0, 1, 2), (0, 2, -1, 1), (3, 0, 1, 2), (0, 1, 2, 3), (7, 5, 9, 8), (-1, 1, 0, -1)]
)
def test_ids_of_foreign_models_are_renumbered(specials: tuple[int, int, int, int]) -> None:
    pad, unk, bos, eos = specials
    written = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()),
        model_writer=written,
        vocab_size=71,
        pad_id=pad,
        unk_id=unk,
        bos_id=bos,
        eos_id=eos,
        minloglevel=2,
    )
    own = SentencePieceTokenizer(written.getvalue())
    assert len(own) == 4 + 71 - sum(i >= 0 for i in specials)
    theirs = spm.SentencePieceProcessor(model_proto=written.getvalue())
    for text in ("the dog runs", "Häuser 水 dog", "<s> </s> <pad>", ""):
        ids = own.encode(text)
        assert own.pieces(ids) == [
            "<unk>" if theirs.is_unknown(i) else theirs.id_to_piece(i) for i in theirs.encode(text)
        ]
        assert all(i == UNK or 4 <= i < len(own) for i in ids)
        assert own.encode_lines([text]) == [ids]
    assert own.decode([2, *own.encode("the dog runs"), 3, 0, 0]) == "the dog runs"


@pytest.mark.parametrize("junk", [b"", b"junk", b"\x00" * 100, b"\xff" * 100, b'{"a": 1}'])
def test_junk_is_no_model(junk: bytes) -> None:
    with pytest.raises(DataError, match="not a sentencepiece model"):
        SentencePieceTokenizer(junk)
