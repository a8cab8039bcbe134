"""How good is the model in the middle of its training? Loss over the whole set, translations of its first lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from torch import nn

from regard.evaluation import EvaluationOptions, measure
from regard.generation import SearchOptions
from regard.models import Transformer
from regard.runs.training.prepare import Prepared
from regard.training import Better, Seq2SeqObjective, held_out_loss
from regard.training.distributed import ALONE, Ranks
from regard.translator import Translator


class Validation:
    """Called with the objective in evaluation mode; gives ``loss``, ``perplexity`` and the metrics by their names.

    The names are those of `regard evaluate`: the recipe's ``bleu`` is called BLEU.

    Loss and perplexity are of unsmoothed probabilities, per real token. Translations are greedy: what is compared are
    moments of one training, and a beam would cost several times as much.

    Attributes:
        outputs: the last translations.

    Args:
        prepared: the validation set and the tokenizers.
        evaluation: what is measured on translations.
        search: the limits of length; its beam is not used.
        ranks: the processes, which divide the lines among them and come to the same figures.
    """

    def __init__(
        self, prepared: Prepared, evaluation: EvaluationOptions, search: SearchOptions, ranks: Ranks = ALONE
    ) -> None:
        self.prepared = prepared
        built = evaluation.build()
        self.metrics = {metric.name: metric for metric in built}
        self.names: dict[str, str] = {word: metric.name for word, metric in zip(evaluation.metrics, built, strict=True)}
        self.outputs: list[str] = []
        self.search = search.greedy()
        self.ranks = ranks

    def __call__(self, objective: nn.Module) -> Mapping[str, float]:
        """Return the figures of the model that ``objective`` trains."""
        objective = cast(Seq2SeqObjective, objective)
        figures = held_out_loss(objective, self.prepared.valid_batches.epoch(0), self.ranks)
        text = self.prepared.valid_text
        translator = Translator(
            cast(Transformer, objective.model),
            self.prepared.source_tokenizer,
            self.prepared.target_tokenizer,
            self.search,
        )
        rank, world = self.ranks.rank, self.ranks.world
        shares = self.ranks.gather(translator(text.sources[rank::world], tag=text.tags[rank::world]))
        self.outputs = [shares[line % world][line // world] for line in range(len(text.sources))]
        return figures | {name: measure(metric, self.outputs, text.references) for name, metric in self.metrics.items()}

    def better(self, metric: str) -> Better:
        """Return which figure decides what is best, in the recipe's word for it, and in which direction."""
        name = self.names.get(metric, metric)
        return Better(name, higher=name in self.metrics and self.metrics[name].higher_is_better)
