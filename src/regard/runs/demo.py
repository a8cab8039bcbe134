"""What can Regard do in five minutes? Learn to pronounce English, and be tried on words that were kept from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch

from regard.evaluation import LineErrorRate, TokenErrorRate, measure
from regard.inspection import aligning_layer, watch_attention
from regard.inspection.report import Example, attention_page, example_of
from regard.protocols import BOS, EOS
from regard.runs.dictionary import SOURCE, Pronunciations, part_of, read_dictionary
from regard.runs.saying import say_nothing, say_on_stderr
from regard.runs.training.train import train
from regard.runs.translating.output import refuse_output_folder
from regard.storage import write_bytes
from regard.translator import Translator

TEST_WORDS, SHOWN_WORDS = 2000, 12

RECIPE = """\
# Letters to phones; the demo of Regard.
[data]
pairs = "train.tsv"
valid_pairs = "valid.tsv"
test_pairs = "test.tsv"
several_answers = true
valid_lines = 300

[tokenizer]
kind = "char"
target_kind = "word"

[model]
preset = "tiny"
encoder_layers = 2
decoder_layers = 1
residual = "pre"
encoder_final_norm = true
decoder_final_norm = true
tie = "target"
dropout = 0.0

[training]
minutes = 5
max_tokens = 512
learning_rate = 3e-3
warmup = 300
validate_every = 1000
save_every = 100
keep_last = 5
average = "last"
average_count = 5

[generation]
beam = 4
max_length = 40

[evaluation]
metrics = ["line-errors", "per"]
"""


def demo(out: Path, minutes: float, *, device: str = "auto", quiet: bool = False) -> Iterator[str]:
    """Train, and yield the results line by line.

    Args:
        out: a folder; the words go in ``words``, the run in ``run``, the page in ``attention.html``.
        minutes: of training, all calls with this folder added.
        device: where to compute.
        quiet: say nothing on stderr meanwhile.

    Raises:
        MissingExtraError: the package with the dictionary is not installed.
        RegardError: as `regard.runs.training.train.train`.
    """
    refuse_output_folder(out)
    say = say_nothing if quiet else say_on_stderr
    say(f"words: {SOURCE}")
    words = read_dictionary()
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for word in words:
        parts[part_of(word)].append(word)
    say(f"{len(words):,} words, {len(parts['test']):,} of them kept out of training by their hash")
    folder = out / "words"
    folder.mkdir(parents=True, exist_ok=True)
    for name, chosen in parts.items():
        write_bytes(folder / f"{name}.tsv", _tsv(words, chosen))
    write_bytes(folder / "recipe.toml", RECIPE.encode())

    translator = train(folder / "recipe.toml", out=out / "run", minutes=minutes, device=device, quiet=quiet)

    unseen = parts["test"][:: max(1, len(parts["test"]) // TEST_WORDS)][:TEST_WORDS]
    answers = [[" ".join(phones) for phones in words[word]] for word in unseen]
    outputs = translator(unseen)
    yield f"{len(unseen):,} unseen words, {translator.search.beam} hypotheses at once, any listed pronunciation right"
    yield f"WER {measure(LineErrorRate(), outputs, answers):.1f} %   words that are not entirely right"
    yield f"PER {measure(TokenErrorRate('PER'), outputs, answers):.1f} %   edits per phone"
    yield ""
    shown = slice(None, None, len(unseen) // SHOWN_WORDS)
    examples = []
    for word, output, right in list(zip(unseen, outputs, answers, strict=True))[shown][:SHOWN_WORDS]:
        mark = "✓" if output in right else "✗"
        yield f"{mark} {word:16} {output:36} {'' if output in right else '   '.join(right)}".rstrip()
        examples.append(_example(translator, word, output, right))
    page = out / "attention.html"
    title = "Where a pronouncer looks"
    layer = aligning_layer(translator.model.spec.decoder_layers)
    write_bytes(page, attention_page(title, examples, lead=f"Unseen words. {SOURCE}.", layer=layer).encode())
    yield ""
    yield f"{page}: where the model looked at each phone; open it in a browser"


def _tsv(words: Pronunciations, chosen: Iterable[str]) -> bytes:
    return "".join(f"{word}\t{' '.join(phones)}\n" for word in chosen for phones in words[word]).encode()


def _example(translator: Translator, word: str, output: str, right: Sequence[str]) -> Example:
    """Run the model over a word and its own output once more, and keep where it looked."""
    model, letters, phones = translator.model, translator.source_tokenizer, translator.target_tokenizer
    device = next(model.parameters()).device
    source, target = [*letters.encode(word), EOS], phones.encode(output)
    with torch.inference_mode(), watch_attention(model) as maps:
        model(torch.tensor([source], device=device), torch.tensor([[BOS, *target]], device=device))
    return example_of(
        maps,
        letters.pieces(source),
        phones.pieces([*target, EOS]),
        title=word,
        output=output,
        facts={"dictionary": " or ".join(right)},
        correct=output in right,
    )
