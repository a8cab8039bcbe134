"""How good is the model in the middle of its training? Loss over the whole set, translations of its first lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from torch import nn

from regard.evaluation import EvaluationOptions, measure
from regard.generation import SearchOptions
from regard.models import Transformer
from regard.runs.prepare import Prepared
from regard.training import Better, Seq2SeqObjective, held_out_loss
from regard.training.distributed import ALONE, Ranks
from regard.translator import Translator


class Validation:
    """Called with the objective in evaluation mode; gives ``loss``, ``perplexity`` and the metrics by their names.

    Loss and perplexity are of unsmoothed probabilities, per real token. Translations are greedy: what is compared are
    moments of one training, and a beam would cost several times as much.

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
        self.metrics = dict(zip(evaluation.metrics, evaluation.build(), strict=True))
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
        outputs = [shares[line % world][line // world] for line in range(len(text.sources))]
        return figures | {name: measure(metric, outputs, text.references) for name, metric in self.metrics.items()}

    def better(self, metric: str) -> Better:
        """Return which figure decides what is best, and in which direction."""
        return Better(metric, higher=metric in self.metrics and self.metrics[metric].higher_is_better)
