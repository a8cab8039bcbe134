"""Subwords by sentencepiece: unigram (Kudo 2018) or BPE (Sennrich, Haddow and Birch 2016).

Trained here, a model keeps spaces as they are (none merged or trimmed) and has our specials at 0-3, so that with
``identity`` normalisation and byte fallback ``decode(encode(text))`` is ``text``, for all text but U+2581 "▁":
sentencepiece writes a space that way, so it comes back as one. With ``nfkc`` what comes back is the NFKC form. One's
own ``.model`` follows its own rules, and its specials may be anywhere: ids are renumbered so that ours are 0-3.
"""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import sentencepiece as spm

from regard.data.tokenizers.base import FIRST, TextTokenizer
from regard.data.tokenizers.resampling import MergeDropout, UnigramSampler
from regard.errors import DataError, RecipeError
from regard.protocols import BOS, EOS, PAD, UNK

MODEL_FILE = "sentencepiece.model"

_LONGEST_LINE = 4192  # bytes; sentencepiece's own limit, set here so that the lines it would drop are counted
_RESERVED = "▅"  # U+2585: sentencepiece leaves out lines that hold its sign for unknown characters
_THREADS = 16  # part of the model's bytes and of the order of its sums, so never taken from the machine
_SEED = 1


class SentencePieceTokenizer(TextTokenizer):
    """A sentencepiece model with our ids.

    Args:
        model: the bytes of a ``.model`` file.
        tags: see ``TextTokenizer``.

    Raises:
        DataError: the bytes are no sentencepiece model.
    """

    kind = "sentencepiece"

    def __init__(self, model: bytes, tags: Iterable[str] = ()) -> None:
        self._model = model
        self._processor = spm.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
            size = self._processor.get_piece_size()
        except (RuntimeError, ValueError, TypeError):
            raise DataError("this is not a sentencepiece model, or it is damaged") from None
        processor = self._processor
        special = {processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id()}
        self._theirs = [-1] * FIRST + [i for i in range(size) if i not in special]
        self._ours = [UNK] * size
        for ours, theirs in enumerate(self._theirs[FIRST:], FIRST):
            self._ours[theirs] = ours
        self._same_ids = self._processor.unk_id() == UNK and self._theirs[FIRST:] == list(range(FIRST, size))
        super().__init__(len(self._theirs) - FIRST, tags)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the best segmentation."""
        return self._renumber(self._processor.encode(text))

    def encode_lines(self, texts: Sequence[str], *, workers: int = 1) -> list[list[int]]:
        """Return ``encode`` of each, by ``workers`` threads."""
        found = self._processor.encode(list(texts), num_threads=workers)
        return [self._renumber(ids) for ids in found]

    def encode_sampled(self, text: str, *, seed: int, strength: float) -> list[int]:
        """Return one of several segmentations, the same for the same seed.

        Args:
            text: one line.
            seed: what the choice depends on, and nothing else does.
            strength: for unigram the smoothing of the distribution over all segmentations (Kudo 2018, α: lower is
                noisier, 0.1-0.5 is usual); for BPE the share of merges left out (Provilkov et al. 2020, 0.1 is usual).
        """
        sampler = self._sampler
        ids: list[int] = []
        for piece in sampler(self._processor.normalize(text), strength, random.Random(seed)):
            found = [self._processor.piece_to_id(piece)] if piece in sampler.scores else self._spelt(piece)
            if found != ids[-1:] or found != [self._processor.unk_id()]:  # of unknown characters in a row one is told
                ids += found
        return self._renumber(ids)

    @cached_property
    def _sampler(self) -> UnigramSampler | MergeDropout:
        """Made when first asked for, as the scores of all pieces are asked for one by one."""
        processor = self._processor
        plain = (
            i
            for i in self._theirs[FIRST:]
            if not (processor.is_control(i) or processor.is_unused(i) or processor.is_byte(i))
        )
        scores = {processor.id_to_piece(i): processor.get_score(i) for i in plain}
        # of BPE they are ranks, and no log-probabilities
        return MergeDropout(scores) if all(map(float.is_integer, scores.values())) else UnigramSampler(scores)

    def _spelt(self, character: str) -> list[int]:
        """Return what the best segmentation has for a character without a piece: its bytes, or the unknown one."""
        as_bytes = [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in character.encode()]
        return as_bytes if all(map(self._processor.is_byte, as_bytes)) else [self._processor.unk_id()]

    def _renumber(self, ids: list[int]) -> list[int]:
        return ids if self._same_ids else [self._ours[i] for i in ids]

    def _decode(self, ids: list[int]) -> str:
        text: str = self._processor.decode([self._theirs[i] for i in ids])
        return text

    def _spelling(self, index: int) -> bytes:
        theirs = self._theirs[index]
        piece: str = self._processor.id_to_piece(theirs)
        if self._processor.is_byte(theirs):
            return bytes.fromhex(piece[3:5])  # written <0x41>
        return b"" if self._processor.is_control(theirs) else piece.replace("▁", " ").encode()

    def _piece(self, index: int) -> str:
        piece: str = self._processor.id_to_piece(self._theirs[index])
        return piece

    def _files(self) -> dict[str, bytes]:
        return {MODEL_FILE: self._model}


@dataclass(frozen=True)
class TrainedSentencePiece:
    """A new tokenizer, and how many lines of the text could not be learned from.

    Attributes:
        tokenizer: the tokenizer.
        lines: non-empty lines seen.
        skipped_long: left out because they have more than 4,192 bytes.
    """

    tokenizer: SentencePieceTokenizer
    lines: int
    skipped_long: int


def train_sentencepiece(
    lines: Iterable[str],
    *,
    vocab_size: int,
    exact_size: bool = True,
    model_type: str = "unigram",
    normalization: str = "identity",
    character_coverage: float = 0.9995,
    byte_fallback: bool = True,
    max_lines: int = 5_000_000,
    tags: Iterable[str] = (),
) -> TrainedSentencePiece:
    """Learn a subword vocabulary. The same lines and arguments give the same bytes.

    Args:
        lines: the training text; empty lines do not count.
        vocab_size: ids, specials and the 256 bytes of ``byte_fallback`` included, tags not.
        exact_size: refuse text too small, or with too many characters, for ``vocab_size``; False takes the largest
            vocabulary that the text gives, or twice what its characters need.
        model_type: ``unigram`` or ``bpe``.
        normalization: ``identity`` or ``nfkc``.
        character_coverage: share of all characters of the text that get their own piece.
        byte_fallback: spell the others by their bytes; without it they are unknown.
        max_lines: learn from an even sample of this many.
        tags: see ``TextTokenizer``.

    Raises:
        DataError: there is nothing to learn from, or not enough for ``vocab_size`` (the largest possible is told).
        RecipeError: ``vocab_size`` has no room for the characters of the text (the smallest possible is told).
    """
    sieve = _Sieve()
    sample = _sample(sieve.pass_on(lines), max_lines)
    if not sample:
        reason = f"every line is over {_LONGEST_LINE:,} bytes long" if sieve.lines else "it holds no text"
        raise DataError(f"no tokenizer can be trained on this corpus: {reason}")

    def learn(size: int) -> bytes:
        written = io.BytesIO()
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(sample),
            model_writer=written,
            vocab_size=size,
            hard_vocab_limit=False,  # the size is checked below, where it can be told in words
            model_type=model_type,
            normalization_rule_name=normalization,
            character_coverage=character_coverage,
            byte_fallback=byte_fallback,
            remove_extra_whitespaces=False,
            max_sentence_length=_LONGEST_LINE,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            num_threads=_THREADS,
            minloglevel=2,
        )
        return written.getvalue()

    try:
        model = learn(vocab_size)
    except RuntimeError as error:
        found = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
        if not found:
            raise DataError(f"sentencepiece could not learn from this corpus: {error}") from None
        if exact_size:
            raise RecipeError(
                f"`vocab_size` must be at least {found[1]} for the characters of this text, but is {vocab_size}; "
                "or lower `character_coverage`"
            ) from None
        model = learn(2 * int(found[1]))  # as many pieces of several characters as characters
    tokenizer = SentencePieceTokenizer(model, tags)
    size = len(tokenizer) - len(tokenizer.tags)
    if exact_size and size < vocab_size:
        raise DataError(
            f"the corpus is too small for `vocab_size` = {vocab_size}: its text gives at most {size} pieces; "
            f"set it to {size} or less, or leave it out"
        )
    return TrainedSentencePiece(tokenizer, sieve.lines, sieve.skipped_long)


class _Sieve:
    """Passes on the lines that the trainer can use, and counts."""

    def __init__(self) -> None:
        self.lines = 0
        self.skipped_long = 0

    def pass_on(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if line:
                self.lines += 1
                if len(line.encode("utf-8")) > _LONGEST_LINE:
                    self.skipped_long += 1
                else:
                    yield line.replace(_RESERVED, "")


def _sample(lines: Iterator[str], size: int) -> list[str]:
    """Keep an even sample of a stream (Vitter 1985, algorithm R), the same one each time."""
    chosen: list[str] = []
    draw = random.Random(_SEED)
    for index, line in enumerate(lines):
        if index < size:
            chosen.append(line)
        elif (slot := draw.randrange(index + 1)) < size:
            chosen[slot] = line
    return chosen
