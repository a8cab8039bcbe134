"""What changes in an example each time that it is seen: words dropped, pieces cut anew.

Every draw is a hash of (seed, epoch, example), and of the time where an epoch sees an example several times; so an
example is the same whoever makes it and whatever was made before.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from regard.data.columns import Ids
from regard.data.corpus import EncodedCorpus
from regard.errors import refuse
from regard.protocols import UNK

_DRAWS = 5  # a quarter of the first draws do not fit into a batch planned for the average; then few are left
_PROBED = 500  # examples looked at to learn how much longer sampled segmentations are


@dataclass(frozen=True)
class NoiseOptions:
    """What is changed in an example each time that it is seen.

    Attributes:
        source_word_dropout: share of source tokens replaced by ``<unk>``; tags stay.
        target_word_dropout: the same for what the decoder reads; what it must predict stays.
        source_sampling: cut the source into pieces anew each time; the strength that ``encode_sampled`` of the
            tokenizer takes (sentencepiece only); left out, never.
        target_sampling: the same for the target.
    """

    source_word_dropout: float = 0.0
    target_word_dropout: float = 0.0
    source_sampling: float | None = None
    target_sampling: float | None = None

    def __post_init__(self) -> None:
        refuse(*self._mistakes())

    def _mistakes(self) -> Iterator[str]:
        for name in ("source_word_dropout", "target_word_dropout"):
            if not 0 <= getattr(self, name) < 1:
                yield f"`{name}` must be at least 0 and below 1, but is {getattr(self, name)}"
        for name in ("source_sampling", "target_sampling"):
            strength = getattr(self, name)
            if strength is not None and not 0 < strength <= 1:
                yield f"`{name}` must be above 0 and at most 1, but is {strength}"


class NoisyExamples:
    """The examples of a corpus as each epoch sees them.

    Args:
        corpus: the examples.
        options: what to change.
        seed: what the changes depend on, beside epoch and example.

    Raises:
        InputError: pieces are to be sampled, but the tokenizer knows one way only.
    """

    def __init__(self, corpus: EncodedCorpus, options: NoiseOptions, seed: int) -> None:
        self._corpus = corpus
        self._options = options
        self._seed = seed
        self._first_tag = len(corpus.source_tokenizer) - len(corpus.source_tokenizer.tags)

    def see(self, epoch: int, example: int, again: int = 0, *, room: int) -> tuple[Ids, Ids, Ids]:
        """Return source, target, and what the decoder reads of the target, as ``epoch`` sees ``example``.

        ``again`` is how many times the epoch has seen it before.

        A segmentation that with EOS has more than ``room`` ids, or than the filters allow, is drawn again; after some
        draws the stored one takes its place.
        """
        corpus, options = self._corpus, self._options
        source: Ids = corpus.source_ids(example)
        target: Ids = corpus.target_ids(example)
        if options == NoiseOptions():
            return source, target, target
        time = f" {again}" if again else ""
        draw = random.Random(f"{self._seed} {epoch} {example}{time}")  # unlike a number, a text seeds through SHA-512
        if options.source_sampling is not None:
            cut = partial(corpus.sampled_source, example, strength=options.source_sampling)
            source = _first_that_fits(cut, draw, min(room, corpus.max_source_length)) or source
        if options.target_sampling is not None:
            cut = partial(corpus.sampled_target, example, strength=options.target_sampling)
            target = _first_that_fits(cut, draw, min(room, corpus.max_target_length)) or target
        source = _drop_words(source, options.source_word_dropout, draw, self._first_tag)
        return source, target, _drop_words(target, options.target_word_dropout, draw)

    def growth(self) -> tuple[float, float]:
        """Return how much longer source and target are, on average, when cut anew, EOS included."""
        corpus, options = self._corpus, self._options
        probe = range(0, len(corpus), max(1, len(corpus) // _PROBED))
        factors = []
        for lengths, strength, sampled in (
            (corpus.source_lengths, options.source_sampling, corpus.sampled_source),
            (corpus.target_lengths, options.target_sampling, corpus.sampled_target),
        ):
            factor = 1.0
            if strength is not None:
                cut = sum(len(sampled(i, seed=i, strength=strength)) + 1 for i in probe)
                factor = max(1.0, cut / sum(int(lengths[i]) + 1 for i in probe))
            factors.append(factor)
        return factors[0], factors[1]


def _first_that_fits(cut: Callable[..., list[int]], draw: random.Random, room: int) -> list[int] | None:
    """Return the first of a few segmentations that has no more than ``room`` ids with EOS, if there is one."""
    for _ in range(_DRAWS):
        ids = cut(seed=draw.getrandbits(32))
        if len(ids) + 1 <= room:
            return ids
    return None


def _drop_words(ids: Ids, share: float, draw: random.Random, tags_from: float = math.inf) -> Ids:
    """Replace each id below ``tags_from`` by UNK with probability ``share``."""
    return [UNK if draw.random() < share and i < tags_from else int(i) for i in ids] if share else ids
