"""What does `regard translate` do with some lines? They become requests, are searched together, and are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from regard.data import TextTokenizer
from regard.errors import InputError, listed, located
from regard.generation import Bias, Suppress
from regard.generation.controls import Control
from regard.runs.translating.forms import FormName, as_fairseq, as_jsonl, as_nbest, as_text
from regard.runs.translating.requests import Asked, from_json
from regard.runs.translating.tally import Tally
from regard.translation import Attended, Glossary, Paragraph, Request, Translation, split_paragraph
from regard.translation.constraints import named_token, written_ids
from regard.translation.result import in_a_row
from regard.translation.sentences import check_language
from regard.translator import load_ensemble

_SENTENCES = 1 << 40
"""Sentence k of line n is number n + k of these: different from all others, whatever is read together."""


@dataclass(frozen=True)
class FilterOptions:
    """All that is asked of a translation of lines; plain values, so that another process can be told.

    Attributes:
        models: folders; several are searched as one.
        weights: of the models; equal if None.
        average: of the models' log-probabilities or of their probabilities.
        overrides: what changes in the search of the model: options by name, as `SearchOptions.changed` takes them.
        tag: put before every line that brings none.
        json_input: lines are JSON objects.
        form: how results are written.
        ids: JSON results tell their tokens.
        align: tell which words belong together.
        threshold: of an alignment; None links each target word to one source word.
        replace_unknown: unknown words of an output become what the model looked at.
        dictionary: what source words become then; None copies them.
        glossary: phrases and what they must become.
        forbid: phrases that no output contains.
        suppress: tokens, as the vocabulary spells them, that are never chosen.
        bias: tokens, likewise, that are made likelier or less likely, and by how many nats.
        paragraphs: the language whose rules part lines into sentences; None takes them whole.
    """

    models: tuple[str, ...]
    weights: tuple[float, ...] | None = None
    average: Literal["log", "linear"] = "log"
    overrides: Mapping[str, Any] = field(default_factory=dict)
    tag: str = ""
    json_input: bool = False
    form: FormName = "text"
    ids: bool = False
    align: bool = False
    threshold: float | None = None
    replace_unknown: bool = False
    dictionary: Glossary | None = None
    glossary: Glossary | None = None
    forbid: tuple[str, ...] = ()
    suppress: tuple[str, ...] = ()
    bias: tuple[tuple[str, float], ...] = ()
    paragraphs: str | None = None

    def __post_init__(self) -> None:
        for name, one in (("forbid", "phrase"), ("suppress", "token")):
            listed(getattr(self, name), name, one)
        drawn = 1 if self.overrides.get("least_risk") else self.overrides.get("samples", 1)
        shown = max(self.overrides.get("nbest", 1), drawn)
        if shown > 1 and self.form == "text" and self.paragraphs is None:
            raise InputError(f"--format text has one output a line, but {shown} are asked for; use nbest or jsonl")
        if self.paragraphs is not None:
            check_language(self.paragraphs)
            for flag, asked in (
                ("--alignments", self.align),
                ("--ids", self.ids),
                ("a list of outputs", shown > 1),
                ("--format", self.form in ("nbest", "fairseq")),
            ):
                if asked:
                    raise InputError(f"{flag} speaks of one sentence; it cannot be combined with --paragraphs")
        if self.dictionary is not None and not self.replace_unknown:
            raise InputError("a dictionary is for --replace-unknown; give both")
        if not all(phrase.strip() for phrase in self.forbid):
            raise InputError("--forbid: a phrase must have at least one letter, but one is empty")


@dataclass(frozen=True)
class Done:
    """Lines translated: what is written for them, and what is to be told of them."""

    written: Sequence[str]
    tally: Tally


class Filter:
    """A translator and what is asked of it.

    Args:
        options: what is asked.
        device: where to translate.

    Raises:
        InputError: a model, a file or an option cannot be used.
    """

    def __init__(self, options: FilterOptions, device: str) -> None:
        self._options = options
        self._glossary = options.glossary or Glossary({})
        dictionary = {} if options.dictionary is None else options.dictionary.terms
        self._translator = load_ensemble(options.models, device, weights=options.weights, average=options.average)
        for term, phrase in self._glossary.terms.items():
            with located(self._glossary.places[term]):
                written_ids(phrase, "phrase", self._translator.target_tokenizer)
        if options.tag:
            self._translator.source_tokenizer.tag_id(options.tag)
        self._search = self._translator.search.changed(**options.overrides)
        self._attended = Attended(options.align, options.threshold, dictionary if options.replace_unknown else None)
        self._controls = _controls(options, self._translator.target_tokenizer)
        sampling = self._search.sampling
        self._shown = self._search.nbest if sampling is None or sampling.least_risk else sampling.samples

    def __call__(self, first: int, lines: Sequence[str], where: str) -> Done:
        """Return the results of lines, the first of which has number ``first``, from 0, in the input ``where``."""
        asked = [self._asked(line, number, where) for number, line in enumerate(lines, first)]
        parts = [self._parts(one.request) for one in asked]
        found = iter(
            self._translator.translate(
                [request for _, requests in parts for request in requests],
                self._search,
                attended=self._attended,
                controls=self._controls,
            )
        )
        written: list[str] = []
        tally = Tally()
        before: tuple[str, Translation] | None = None
        for one, (paragraph, requests) in zip(asked, parts, strict=True):
            lists = [next(found)[: self._shown] for _ in requests]
            best = lists[0] if paragraph is None else [in_a_row([part[0] for part in lists], paragraph.joined)]
            written += self._written(one, best)
            tally += Tally.of(one.request.text, best[0], replaced=self._options.replace_unknown, before=before)
            if one.request.text.strip():
                before = one.request.text, best[0]
        return Done(written, tally)

    def _asked(self, line: str, number: int, where: str) -> Asked:
        asked = from_json(line, f"{where}:{number + 1}") if self._options.json_input else Asked(Request(line))
        request = replace(
            asked.request,
            tag=asked.request.tag or self._options.tag,
            forbidden=(*self._options.forbid, *asked.request.forbidden),
            number=number,
        )
        return replace(asked, request=request)

    def _parts(self, request: Request) -> tuple[Paragraph | None, list[Request]]:
        """Return the sentences of a request, with what the glossary asks of each."""
        if self._options.paragraphs is None:
            terms = self._glossary.constraints(request.text)
            return None, [replace(request, constraints=tuple(dict.fromkeys([*request.constraints, *terms])))]
        if request.constraints:
            raise InputError(
                f"{request.where}: `constraints` are of one sentence; they cannot be combined with --paragraphs"
            )
        paragraph = split_paragraph(request.text, self._options.paragraphs)
        return paragraph, [
            replace(
                request,
                text=sentence,
                prefix=request.prefix if place == 0 else "",
                constraints=self._glossary.constraints(sentence),
                number=request.number + place * _SENTENCES,
            )
            for place, sentence in enumerate(paragraph.sentences)
        ]

    def _written(self, asked: Asked, found: Sequence[Translation]) -> Sequence[str]:
        number, text = asked.request.number, asked.request.text
        match self._options.form:
            case "text":
                return [as_text(found[0])]
            case "nbest":
                return [*as_nbest(number, found)]
            case "jsonl":
                return [*as_jsonl(text, found, asked.others, nbest=self._shown > 1, ids=self._options.ids)]
            case "fairseq":
                return [*as_fairseq(number, text, found, self._translator.target_tokenizer.pieces)]


def _controls(options: FilterOptions, tokenizer: TextTokenizer) -> list[Control]:
    found: list[Control] = []
    if options.suppress:
        with located("--suppress"):
            found.append(Suppress([named_token(name, tokenizer) for name in options.suppress]))
    if options.bias:
        with located("--bias"):
            found.append(Bias({named_token(name, tokenizer): nats for name, nats in options.bias}))
    return found
