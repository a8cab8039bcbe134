"""How probable does a model find given outputs? One figure a pair, or one a token."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from regard.data import CorpusFiles, read_lines, read_parallel
from regard.device import best_device
from regard.errors import DataError
from regard.plural import plural
from regard.runs.copies import doubt_of_copies
from regard.runs.saying import Say, say_on_stderr
from regard.runs.translating.output import printer, refuse_output
from regard.runs.translating.requests import from_json
from regard.runs.waiting import telling
from regard.translation import Request, Translation
from regard.translator import Translator, load_ensemble

_CHUNK = 1024
_WRITTEN = '{"source": "…", "translation": "…"}, as translate --jsonl writes it; lines of text are for --target'


@dataclass(frozen=True)
class Pair:
    """A text and an output of it.

    Attributes:
        request: the text.
        target: the output as text, or the ids that a search found.
        finished: whether the end mark belongs to it.
    """

    request: Request
    target: str | Sequence[int]
    finished: bool = True


@dataclass(frozen=True)
class Outputs:
    """Where the pairs are: two files, a file of pairs, or what `regard translate --jsonl --ids` wrote.

    Attributes:
        source: of lines.
        target: of lines, aligned with it.
        pairs: instead of the two: TSV, or JSONL with ``source`` and ``target``.
        translations: instead: JSON lines with ``source``, ``translation`` and ``ids``; of n-best lists every output.
    """

    source: Path | None = None
    target: Path | None = None
    pairs: Path | None = None
    translations: Path | None = None

    def __post_init__(self) -> None:
        if (self.source is None) != (self.target is None):
            raise DataError("--source needs its --target, and --target its --source")
        if sum(given is not None for given in (self.source, self.pairs, self.translations)) != 1:
            raise DataError("say what to score: --source with --target, or --pairs, or --translations")

    def read(self, tag: str) -> Iterator[Pair]:
        """Yield the pairs; ``tag`` stands before every text that brings none.

        Raises:
            DataError: a file or a line cannot be used.
        """
        if self.translations is not None:
            for number, line in enumerate(read_lines(self.translations), 1):
                yield from _translations(line, f"{self.translations}:{number}", tag)
            return
        if self.source is not None and self.target is not None:
            pairs, path = read_parallel(self.source, self.target), str(self.target)
        else:
            pairs, path = CorpusFiles(str(self.pairs)).read(), str(self.pairs)
        name = "standard input" if path == "-" else path
        for number, pair in enumerate(pairs, 1):
            yield Pair(Request(pair.source, pair.tag or tag, where=f"{name}:{number}"), pair.target)


def score(
    models: Sequence[str | Path],
    outputs: Outputs,
    *,
    weights: Sequence[float] | None = None,
    average: Literal["log", "linear"] = "log",
    overrides: Mapping[str, Any] | None = None,
    tag: str = "",
    tokens: bool = False,
    normalized: bool = False,
    jsonl: bool = False,
    output: Path | None = None,
    device: str = "auto",
    say: Say = say_on_stderr,
) -> None:
    """Print the log-probability of each output.

    Args:
        models: folders; several are taken together, as in a search.
        outputs: what is scored.
        weights: of the models; equal if None.
        average: of the models' log-probabilities or of their probabilities.
        overrides: what changes in the score of the model's search: options by name.
        tag: put before every text that brings none.
        tokens: print that of each token too, and of the end mark.
        normalized: print what a search ranks by in place of the sum.
        jsonl: print JSON objects.
        output: the file of results; None is stdout.
        device: where to compute.
        say: told the mean over all tokens at the end.

    Raises:
        InputError: a file, an option or a model cannot be used.
    """
    refuse_output(output, [outputs.source, outputs.target, outputs.pairs, outputs.translations])
    with telling(f"loading {' '.join(map(str, models))}", say):
        translator = load_ensemble(models, best_device(device), weights=weights, average=average)
    if tag:
        translator.source_tokenizer.tag_id(tag)
    search = translator.search.changed(**(overrides or {}))
    total, count, num_pairs, num_same = 0.0, 0, 0, 0
    pairs = outputs.read(tag)
    with printer(output) as put:
        while chunk := list(islice(pairs, _CHUNK)):
            found = translator.score(
                [pair.request for pair in chunk],
                [pair.target for pair in chunk],
                search,
                finished=[pair.finished for pair in chunk],
            )
            num_pairs += len(chunk)
            num_same += sum(pair.request.text == pair.target for pair in chunk)
            total += math.fsum(one.log_prob for one in found)
            count += sum(len(one.token_log_probs) for one in found)
            written = []
            for pair, one in zip(chunk, found, strict=True):
                figure = one.score if normalized else one.log_prob
                named = _named(translator, one)
                if jsonl:
                    written.append(json.dumps(_facts(pair, one, named if tokens else None), ensure_ascii=False))
                else:
                    written.append("\t".join([f"{figure:.6f}", *(_token(*pair) for pair in named if tokens)]))
            put(written)
    if doubt := doubt_of_copies(num_same, num_pairs):
        say(doubt)
    if count:
        mean = total / count
        perplexity = math.exp(-mean) if mean > -700 else math.inf
        say(f"{plural(count, 'token')}: log-probability {mean:.4f} each, perplexity {perplexity:.2f}")


def _translations(line: str, where: str, tag: str) -> Iterator[Pair]:
    asked = from_json(line, where, _WRITTEN)
    request = Request(asked.request.text, asked.request.tag or tag, where=where)
    for found in asked.others.get("nbest") or [asked.others]:
        target = found.get("ids", found.get("translation")) if isinstance(found, dict) else None
        if isinstance(target, str) or (isinstance(target, list) and all(type(i) is int for i in target)):
            yield Pair(request, target, finished=found.get("finished", True) is not False)
        else:
            raise DataError(f"{where}: neither `ids`, a list of whole numbers, nor the text of a `translation`")


def _named(translator: Translator, one: Translation) -> list[tuple[str, float]]:
    names = [*translator.target_tokenizer.pieces(one.ids), "</s>"]
    return list(zip(names, one.token_log_probs, strict=False))


def _token(name: str, log_prob: float) -> str:
    """Return ``▁dog -0.25``; a name has no space that could be taken for the one before the figure."""
    return f"{'␣'.join(name.split()) or '␣'} {log_prob:.6f}"


def _facts(pair: Pair, one: Translation, named: list[tuple[str, float]] | None) -> dict[str, Any]:
    facts = {
        "source": pair.request.text,
        "target": pair.target if isinstance(pair.target, str) else one.text,
        "log_prob": one.log_prob,
        "score": one.score,
        "num_tokens": len(one.token_log_probs),
    }
    return facts if named is None else {**facts, "tokens": [list(token) for token in named]}
