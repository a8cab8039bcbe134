"""How is a trained model used? Text in, text out, in the order given: what `regard.load` and `regard.train` return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from regard.bundle import load_bundle
from regard.errors import DamagedError, InputError, RecipeError
from regard.generation import Hypothesis, SearchOptions, generate_all
from regard.models import Transformer
from regard.protocols import EOS, Tokenizer
from regard.training import evaluation_mode

_BATCH_TOKENS = 8192  # source tokens decoded together, the beam's copies included: about 64 sentences at beam 4


@dataclass(frozen=True)
class Translation:
    """One way to put a text.

    Attributes:
        text: the output.
        score: what the search ranks by.
        log_prob: natural-log probability of the whole output under the model.
        finished: the model ended it by itself; otherwise it was cut at the longest length allowed.
        source_cut: the text was longer than the model can read, and its end was left out.
        ids: the output's tokens, without special ones.
    """

    text: str
    score: float
    log_prob: float
    finished: bool
    source_cut: bool
    ids: tuple[int, ...]


class Translator:
    """A model, the tokenizers of both sides, and a search.

    Args:
        model: any mode; while translating it is in evaluation mode, and afterwards each part in its own again.
        source_tokenizer: text to source ids.
        target_tokenizer: target ids to text.
        search: what is done unless a call says otherwise.
        recipe: the tables of the recipe that made the model.
    """

    def __init__(
        self,
        model: Transformer,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        search: SearchOptions | None = None,
        recipe: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.search = search or SearchOptions()
        self.recipe = recipe or {}

    def __call__(self, texts: Sequence[str], *, beam: int | None = None, tag: str | Sequence[str] = "") -> list[str]:
        """Return the best translation of each text.

        Args:
            texts: one line each; an empty one gives an empty one.
            beam: hypotheses of a plain beam search, 1 being greedy; left out, ``search`` says what is done.
            tag: put before every text, or one tag a text, for models trained with tags.
        """
        search = replace(self.search, nbest=1)
        if beam is not None:
            search = replace(search, beam=beam, groups=1, sampling=None)
        return [best.text for best, *_ in self.translate(texts, search, tag=tag)]

    def translate(
        self, texts: Sequence[str], search: SearchOptions | None = None, *, tag: str | Sequence[str] = ""
    ) -> list[list[Translation]]:
        """Return the n-best translations of each text, best first, at least one each.

        Args:
            texts: one line each. One without any token, such as an empty one, is not shown to the model.
            search: beam, n-best, length penalty and limits; ``dataclasses.replace(translator.search, nbest=5)``.
            tag: as in a call.

        Raises:
            InputError: ``texts`` is one string, or a tag is unknown to the model.
        """
        if isinstance(texts, str):
            raise InputError("`texts` must be a list of strings, but is one string; write [text]")
        search = search or self.search
        # the start mark stands before a target and the end mark behind a source: both take a place
        longest = self.model.spec.max_len - 1
        search = replace(search, max_length=min(search.max_length, longest), min_length=min(search.min_length, longest))
        sources = [self._source_ids(text, tag) for text, tag in zip(texts, self._tags(tag, texts), strict=True)]
        asked = [index for index, source in enumerate(sources) if source]
        device = next(self.model.parameters()).device
        with evaluation_mode(self.model):
            found = generate_all(
                self.model,
                [[*sources[index][:longest], EOS] for index in asked],
                search,
                batch_tokens=_BATCH_TOKENS,
                device=device,
            )
        results = [[Translation("", 0.0, 0.0, finished=True, source_cut=False, ids=())] for _ in texts]
        for index, hypotheses in zip(asked, found, strict=True):
            cut = len(sources[index]) > longest
            results[index] = [self._translation(hypothesis, source_cut=cut) for hypothesis in hypotheses]
        return results

    def _tags(self, tag: str | Sequence[str], texts: Sequence[str]) -> Sequence[str]:
        if isinstance(tag, str):
            return [tag] * len(texts)
        if len(tag) != len(texts):
            raise InputError(f"`tag` must be one tag, or as many as there are texts: {len(tag)} for {len(texts)}")
        return tag

    def _source_ids(self, text: str, tag: str) -> list[int]:
        ids = self.source_tokenizer.encode(text)
        return [self.source_tokenizer.tag_id(tag), *ids] if tag and ids else ids

    def _translation(self, hypothesis: Hypothesis, *, source_cut: bool) -> Translation:
        return Translation(
            text=_one_line(self.target_tokenizer.decode(hypothesis.ids)),
            score=hypothesis.score,
            log_prob=hypothesis.log_prob,
            finished=hypothesis.finished,
            source_cut=source_cut,
            ids=hypothesis.ids,
        )


def load(path: str | Path, device: str | torch.device = "cpu") -> Translator:
    """Open a model folder, or a run folder with a finished model in it.

    Args:
        path: the folder.
        device: where to translate.

    Raises:
        FolderError: there is no model.
        DamagedError: a file differs from what was saved; the message names it.
    """
    bundle = load_bundle(path, device)
    try:
        search = SearchOptions.from_table(bundle.recipe.get("generation", {}))
    except (AttributeError, TypeError, OverflowError, RecipeError) as error:
        raise DamagedError(f"{path}: the search options in config.json cannot be used: {error}") from None
    return Translator(bundle.model, bundle.source_tokenizer, bundle.target_tokenizer, search, bundle.recipe)


def _one_line(text: str) -> str:
    """A model that spells bytes may spell a line end; an output is one line for each line of input."""
    return text.replace("\r", " ").replace("\n", " ")
