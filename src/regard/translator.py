"""How is a trained model used? Text in, text out, in the order given: what `regard.load` and `regard.train` return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from regard.bundle import load_bundle
from regard.data import TextTokenizer
from regard.errors import DamagedError, InputError, RecipeError, listed, located
from regard.generation import BeamSearch, Hypothesis, SearchOptions, generate_all, least_risk
from regard.generation.controls import Control, asked_by
from regard.generation.lengths import padded
from regard.models import Transformer
from regard.plural import plural
from regard.translation import Attended, Request, Source, Translation, read
from regard.translation.constraints import Constraints
from regard.translation.ensemble import BATCH_TOKENS, ModelEnsemble
from regard.translation.request import as_requests
from regard.translation.result import one_line


class Translator:
    """A model, the tokenizers of both sides, and a search.

    Args:
        model: any mode; while translating it is in evaluation mode, and afterwards each part in its own again.
        source_tokenizer: text to source ids.
        target_tokenizer: target ids to text.
        search: what is done unless a call says otherwise.
        recipe: the tables of the recipe that made the model.
        partners: further models with the same vocabularies, searched together with it.
        weights: of the model and its partners; equal if not given.
        average: whether their log-probabilities are averaged or their probabilities (``linear``).
    """

    def __init__(
        self,
        model: Transformer,
        source_tokenizer: TextTokenizer,
        target_tokenizer: TextTokenizer,
        search: SearchOptions | None = None,
        recipe: Mapping[str, Any] | None = None,
        *,
        partners: Sequence[Transformer] = (),
        weights: Sequence[float] | None = None,
        average: Literal["log", "linear"] = "log",
    ) -> None:
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.search = search or SearchOptions()
        self.recipe = recipe or {}
        self._models = ModelEnsemble([model, *partners], weights, average)

    def __call__(self, texts: Iterable[str], *, beam: int | None = None, tag: str | Sequence[str] = "") -> list[str]:
        """Return the best translation of each text.

        Args:
            texts: one line each; an empty one, or one of spaces alone, gives an empty one.
            beam: hypotheses of a plain beam search, 1 being greedy; left out, ``search`` says what is done.
            tag: put before every text, or one tag a text, for models trained with tags.
        """
        search = self.search if beam is None else self.search.changed(beam=beam)
        return [best.text for best, *_ in self.translate(texts, replace(search, nbest=1), tag=tag)]

    def translate(
        self,
        texts: Iterable[str | Request],
        search: SearchOptions | None = None,
        *,
        tag: str | Sequence[str] = "",
        attended: Attended | None = None,
        controls: Sequence[Control] = (),
    ) -> list[list[Translation]]:
        """Return the n-best translations of each text, best first, at least one each.

        Args:
            texts: one line each, or what is asked of each. One without any token, such as an empty one, or of spaces
                alone is not shown to the model.
            search: what is done, such as ``translator.search.changed(nbest=5)`` or ``.changed(samples=3, top_k=10)``.
            tag: as in a call; a request has its own.
            attended: what is made of attention.
            controls: change the scores of words of all texts.

        Raises:
            InputError: ``texts`` is one string, a tag is unknown to the model, or a phrase cannot be written.
        """
        requests = as_requests(texts, tag)
        search = self._within_reach(search or self.search)
        constraints = Constraints(requests, self.target_tokenizer)
        sources = self._read(requests)
        asked = [index for index, source in enumerate(sources) if not source.empty]
        with self._models.evaluating():
            found = generate_all(
                self._models.decoder(look=search.coverage_penalty > 0),
                [sources[index].ids for index in asked],
                search,
                controls=[*constraints.controls, *controls],
                phrases=constraints.phrases,
                sentences=[requests[index].number for index in asked],
                batch_tokens=BATCH_TOKENS,
                device=self._models.device,
            )
        if search.sampling and search.sampling.least_risk:
            found = [self._by_risk(hypotheses) for hypotheses in found]
        results = [[Translation.nothing(request.constraints)] for request in requests]
        for index, hypotheses in zip(asked, found, strict=True):
            results[index] = [
                replace(
                    self._translation(hypothesis, sources[index]),
                    missing=constraints.named(requests[index].number, hypothesis.missing),
                )
                for hypothesis in hypotheses
            ]
        if attended:
            self._attend([sources[index] for index in asked], [results[index] for index in asked], attended)
        return results

    def stream(
        self,
        text: str | Request,
        search: SearchOptions | None = None,
        *,
        tag: str = "",
        stop: Callable[[str], bool] | None = None,
    ) -> Iterator[str]:
        """Yield the best translation in pieces, each as soon as nothing that follows can change it.

        Joined, the pieces are the translation. None holds half of a character.

        Args:
            text: one line, or what is asked of it.
            search: a beam search; the narrower, the sooner a piece is sure. With beam 1 each word comes by itself.
            tag: as in a call.
            stop: told the translation so far after each piece; True ends it there.

        Raises:
            InputError: as ``translate``, or the search draws at random.
        """
        (request,) = as_requests([text], tag)
        search = self._within_reach(replace(search or self.search, nbest=1))
        if search.sampling:
            raise InputError("a stream needs a beam search: what is drawn at random is known when it is complete")
        (source,), constraints = self._read([request]), Constraints([request], self.target_tokenizer)
        if source.empty:
            return
        written = ""
        with self._models.evaluating():
            running = BeamSearch(
                self._models.decoder(look=search.coverage_penalty > 0),
                *padded([source.ids], self._models.device),
                search,
                controls=[*asked_by(search), *constraints.controls],
                phrases=constraints.phrases,
                sentences=[request.number],
            )
            while running.running:
                running.step()
                settled = one_line(self.target_tokenizer.settled(running.settled(request.number)))
                if running.running and len(settled) > len(written):
                    yield settled[len(written) :]
                    written = settled
                    if stop is not None and stop(written):
                        return
            best = one_line(self.target_tokenizer.decode(running.results()[0][0].ids))
        if len(best) > len(written):
            yield best[len(written) :]

    def score(
        self,
        texts: Iterable[str | Request],
        targets: Iterable[str | Sequence[int]],
        search: SearchOptions | None = None,
        *,
        tag: str | Sequence[str] = "",
        finished: Sequence[bool] | None = None,
    ) -> list[Translation]:
        """Return the given targets as the model sees them: what a search that found them would report.

        Args:
            texts: as in ``translate``.
            targets: text, which is cut into tokens as in training, or the ids of an output as the search found them.
            search: the score, the coverage penalty included.
            tag: as in a call.
            finished: whether the end mark belongs to each target, as it does if not given; False for outputs cut.

        Raises:
            InputError: a target is longer than the model can write, the numbers differ, or as in ``translate``.
        """
        requests, search = as_requests(texts, tag), search or self.search
        given = listed(targets, "targets", "text")
        ends = [True] * len(given) if finished is None else listed(finished, "finished", "mark")
        if not len(requests) == len(given) == len(ends):
            ended = "" if finished is None else f", {plural(len(ends), 'mark')} of `finished`"
            raise InputError(
                f"scoring needs a target for each text: {plural(len(given), 'target')} for "
                f"{plural(len(requests), 'text')}{ended}"
            )
        outputs: list[list[int]] = []
        for number, (request, target) in enumerate(zip(requests, given, strict=True), 1):
            with located(request.where or f"target {number}"):
                outputs.append(self._written(target))
        sources = self._read(requests)
        found = self._models.scored(sources, outputs, ends, search)
        return [
            Translation.nothing(request.constraints)
            if source.empty and not hypothesis.ids
            else self._translation(hypothesis, source)
            for request, source, hypothesis in zip(requests, sources, found, strict=True)
        ]

    def _within_reach(self, search: SearchOptions) -> SearchOptions:
        longest = self._models.longest
        return replace(search, max_length=min(search.max_length, longest), min_length=min(search.min_length, longest))

    def _attend(self, sources: Sequence[Source], results: Sequence[list[Translation]], attended: Attended) -> None:
        """Put into ``results`` what attention says."""
        places = [
            (row, rank) for row, found in enumerate(results) for rank, one in enumerate(found) if attended.needed(one)
        ]
        outputs = [results[row][rank] for row, rank in places]
        read = [sources[row] for row, _ in places]
        plain = replace(self.search, coverage_penalty=0.0)
        looks = self._models.forced(read, [one.ids for one in outputs], [one.finished for one in outputs], plain)
        for (row, rank), one, source, forced in zip(places, outputs, read, looks, strict=True):
            assert forced.attention is not None
            results[row][rank] = attended.applied(
                one, source, forced.attention.float().cpu(), self.source_tokenizer, self.target_tokenizer
            )

    def _by_risk(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        from regard.evaluation.likeness import likeness

        texts = {hypothesis.ids: self.target_tokenizer.decode(hypothesis.ids) for hypothesis in hypotheses}
        return least_risk(hypotheses, lambda ours, theirs: likeness(texts[ours], texts[theirs]))

    def _read(self, requests: Sequence[Request]) -> list[Source]:
        return [read(request, self.source_tokenizer, self._models.longest) for request in requests]

    def _written(self, target: str | Sequence[int]) -> list[int]:
        """Return the ids of a target; the model must be able to write it."""
        ids = self.target_tokenizer.encode(target) if isinstance(target, str) else listed(target, "target", "token id")
        if len(ids) > self._models.longest:
            raise InputError(f"an output has {len(ids):,} tokens, and the model writes {self._models.longest:,}")
        self.target_tokenizer.pieces(ids)  # refuses ids that no vocabulary has
        return ids

    def _translation(self, hypothesis: Hypothesis, source: Source) -> Translation:
        return Translation(
            text=one_line(self.target_tokenizer.decode(hypothesis.ids)),
            score=hypothesis.score,
            log_prob=hypothesis.log_prob,
            finished=hypothesis.finished,
            source_cut=source.cut,
            ids=hypothesis.ids,
            token_log_probs=hypothesis.token_log_probs,
            source_unknown=source.unknown,
        )


def load(path: str | Path, device: str | torch.device = "cpu") -> Translator:
    """Open a model folder, or a run folder with a finished model in it.

    Args:
        path: the folder.
        device: where to translate; ``auto`` is what there is.

    Raises:
        InputError: ``path`` is something else.
        RecipeError: there is no such device here.
        FolderError: there is no model.
        DamagedError: a file differs from what was saved; the message names it.
    """
    if not isinstance(path, str | Path):
        raise InputError(f"`path` must be one folder, but is {path!r}; several are opened by load_ensemble")
    return load_ensemble([path], device)


def load_ensemble(
    paths: Sequence[str | Path],
    device: str | torch.device = "cpu",
    *,
    weights: Sequence[float] | None = None,
    average: Literal["log", "linear"] = "log",
) -> Translator:
    """Open several model folders whose models are searched as one; search options and recipe are those of the first.

    Args:
        paths: at least one folder.
        device: as in ``load``.
        weights: as in ``Translator``.
        average: likewise.

    Raises:
        InputError: the vocabularies differ, the weights are not one for each model, or there is no such average.
        FolderError: as ``load``.
    """
    if isinstance(paths, str | Path) or not paths:
        raise InputError(f"an ensemble must be a list of folders, at least one, but is {paths!r}")
    first, *others = [load_bundle(path, device) for path in paths]
    for path, bundle in zip(paths[1:], others, strict=True):
        for side in ("source", "target"):
            ours, theirs = (getattr(one, f"{side}_tokenizer").to_files() for one in (first, bundle))
            if ours != theirs:
                raise InputError(
                    f"{path} has another {side} vocabulary than {paths[0]}, so they cannot be searched as one"
                )
    try:
        search = SearchOptions.from_table(first.recipe.get("generation", {}))
    except (AttributeError, TypeError, OverflowError, RecipeError) as error:
        raise DamagedError(f"{paths[0]}: the search options in config.json cannot be used: {error}") from None
    return Translator(
        first.model.lay_out_for_steps(),
        first.source_tokenizer,
        first.target_tokenizer,
        search,
        first.recipe,
        partners=[bundle.model.lay_out_for_steps() for bundle in others],
        weights=weights,
        average=average,
    )
