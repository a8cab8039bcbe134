"""What attention says of an output: which words belong together, and what an unknown word stood for.

Axes: T target tokens, S source tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from regard.data import TextTokenizer
from regard.errors import InputError
from regard.inspection.alignment import align_words, flatness, word_spans
from regard.translation.result import Translation, one_line
from regard.translation.source import Source
from regard.translation.unknown import known_by, spelled_source, spelled_target


@dataclass(frozen=True)
class Attended:
    """What is asked of attention; it costs another pass over the outputs.

    Attributes:
        align: say which words belong together.
        threshold: link a target word to all source words with at least this share of its look; left out, to the one
            that is looked at most.
        dictionary: unknown words of an output become what their source words become here, or a copy of them; None
            leaves them out.
    """

    align: bool = False
    threshold: float | None = None
    dictionary: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and not 0 < self.threshold <= 1:
            raise InputError(f"the threshold of an alignment must be above 0 and at most 1, but is {self.threshold}")

    def needed(self, one: Translation) -> bool:
        """Return whether there is anything to do for an output."""
        return self.align or (self.dictionary is not None and one.unknown > 0)

    def applied(
        self,
        one: Translation,
        source: Source,
        attention: Float[Tensor, "T S"],
        source_tokenizer: TextTokenizer,
        target_tokenizer: TextTokenizer,
    ) -> Translation:
        """Return the output with what its attention says."""
        dictionary = self.dictionary if one.unknown else None
        if dictionary is not None:
            words = known_by(
                attention,
                one.ids,
                source,
                source_tokenizer,
                dictionary,
                whole_words=target_tokenizer.unknown_is_word,
            )
            one = replace(one, text=one_line(target_tokenizer.fill(one.ids, words)))
        if not self.align:
            return one
        links = align_words(
            attention,
            word_spans(spelled_source(source_tokenizer, source)),
            word_spans(spelled_target(target_tokenizer, one.ids, filled=dictionary is not None)),
            threshold=self.threshold,
        )
        return replace(one, alignment=tuple(links), flatness=flatness(attention))
