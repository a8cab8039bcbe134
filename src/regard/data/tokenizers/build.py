"""From options and training text to the tokenizers of both sides; from stored files back to one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from regard.data.readers import read_lines
from regard.data.tokenizers import huggingface, sentencepiece
from regard.data.tokenizers.base import TextTokenizer, read_described, strings
from regard.data.tokenizers.exact import ByteTokenizer, CharTokenizer, WordTokenizer, train_exact
from regard.data.tokenizers.huggingface import HuggingFaceTokenizer
from regard.data.tokenizers.options import Kind, TokenizerOptions, vocabulary_size
from regard.data.tokenizers.sentencepiece import SentencePieceTokenizer, train_sentencepiece
from regard.errors import DamagedError, DataError, RecipeError
from regard.plural import plural

Lines = Callable[[], Iterable[str]]
"""Gives the training text of one side, from its first line, each time it is called."""


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of both sides; one object when they are joint.

    Attributes:
        source: of the source side, with the tags.
        target: of the target side.
        sentences: what was done, for the user: sizes, and lines that could not be learned from.
    """

    source: TextTokenizer
    target: TextTokenizer
    sentences: tuple[str, ...]


def build_tokenizers(
    options: TokenizerOptions, source_lines: Lines, target_lines: Lines, *, tags: Iterable[str] = ()
) -> Tokenizers:
    """Train (or open) the tokenizers that ``options`` ask for.

    Args:
        options: which.
        source_lines: gives the source side of the training text, as often as it is called.
        target_lines: gives the target side.
        tags: what may stand before a source; with ``joint`` the one vocabulary has them.

    Raises:
        DataError: the text does not suffice, or a file of one's own cannot be used.
        RecipeError: options that contradict each other or the text.
    """
    tags = tuple(tags)
    if options.joint:
        both = options.source_model
        tokenizer, sentence = _one("joint", options, options.kind, both, _both(source_lines, target_lines), tags)
        return Tokenizers(tokenizer, tokenizer, (sentence,))
    source, told = _one("source", options, options.kind, options.source_model, source_lines, tags)
    target_kind = options.target_kind or options.kind
    target, also_told = _one("target", options, target_kind, options.target_model, target_lines, ())
    return Tokenizers(source, target, (told, also_told))


def open_vocabulary(path: str | Path, kind: Kind, tags: Iterable[str] = ()) -> TextTokenizer:
    """Open a vocabulary of one's own: a sentencepiece ``.model``, a Hugging Face ``.json``, or a list for char or word.

    Raises:
        DataError: the file is missing or not what its name or ``kind`` says.
        MissingExtraError: a ``.json`` needs the extra ``hf``.
    """
    path = Path(path)
    try:
        if path.suffix == ".model":
            return SentencePieceTokenizer(path.read_bytes(), tags)
        if path.suffix == ".json":
            return HuggingFaceTokenizer(path.read_bytes(), tags)
        if kind == "word":
            return WordTokenizer(list(read_lines(path)), tags)
        if kind == "char":
            return CharTokenizer(list(read_lines(path)), tags)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except DataError as error:
        raise error if str(path) in str(error) else DataError(f"{path}: {error}") from None
    raise RecipeError(
        f"{path}: a vocabulary for kind {kind!r} must be a .model or .json file; a list is for char or word"
    )


def load_tokenizer(config: Mapping[str, object], files: Mapping[str, bytes]) -> TextTokenizer:
    """Make a tokenizer again from what ``to_files`` gave.

    Args:
        config: holds ``kind``, as the model folder names it.
        files: file names and their bytes.

    Raises:
        DamagedError: the files do not hold a tokenizer of that kind.
    """
    described = read_described(files)
    kind, tags = described.get("kind"), strings(described, "tags")
    if config.get("kind") != kind:
        raise DamagedError(
            f"the model's tokenizer is of kind {config.get('kind')!r}, but its files are of kind {kind!r}"
        )
    try:
        match kind:
            case "char":
                return CharTokenizer(strings(described, "pieces"), tags)
            case "word":
                return WordTokenizer(strings(described, "pieces"), tags)
            case "byte":
                return ByteTokenizer(tags)
            case "sentencepiece":
                return SentencePieceTokenizer(files[sentencepiece.MODEL_FILE], tags)
            case "huggingface":
                return HuggingFaceTokenizer(files[huggingface.MODEL_FILE], tags)
    except KeyError as error:
        raise DamagedError(f"the tokenizer's {error.args[0]} is missing") from None
    except DataError as error:
        raise DamagedError(f"the stored tokenizer cannot be used: {error}") from None
    raise DamagedError(f"the tokenizer is of kind {kind!r}, which this version does not know")


def _both(source_lines: Lines, target_lines: Lines) -> Lines:
    return lambda: chain(source_lines(), target_lines())


def _one(
    side: str, options: TokenizerOptions, kind: Kind, own: str | None, lines: Lines, tags: tuple[str, ...]
) -> tuple[TextTokenizer, str]:
    if own is not None:
        tokenizer = open_vocabulary(own, kind, tags)
        return tokenizer, f"{side} vocabulary: {len(tokenizer):,} ids, {tokenizer.kind}, from {own}"
    if kind != "sentencepiece":
        exact = train_exact(
            kind, lines(), vocab_size=options.vocab_size, min_frequency=options.min_frequency, tags=tags
        )
        return exact, f"{side} vocabulary: {len(exact):,} ids, {kind}"
    size = options.vocab_size or vocabulary_size(sum(map(len, lines())))
    trained = train_sentencepiece(
        lines(),
        vocab_size=size,
        exact_size=options.vocab_size is not None,
        model_type=options.model_type,
        normalization=options.normalization,
        character_coverage=options.character_coverage,
        byte_fallback=options.byte_fallback,
        max_lines=options.max_training_lines,
        tags=tags,
    )
    said = (
        f"{side} vocabulary: {len(trained.tokenizer):,} ids, sentencepiece {options.model_type}, "
        f"{options.normalization} normalisation"
    )
    if options.vocab_size is None:
        said += ", size chosen from the amount of text"
    if trained.skipped_long:
        said += f"; too long to learn from: {trained.skipped_long:,} of {plural(trained.lines, 'line')}"
    return trained.tokenizer, said
