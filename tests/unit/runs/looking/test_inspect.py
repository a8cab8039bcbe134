"""What is shown of a model: of a sentence, of any module, of test files; and the words for what cannot be shown."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from regard.cli import run
from regard.errors import DataError, InputError
from regard.generation import SearchOptions, beam_search
from regard.inspection import ledger
from regard.inspection.alignment import doubt_of_flat
from regard.models import Transformer, ablate, ablation_names, build
from regard.protocols import Step
from regard.runs.looking.align import aligned_lines, ranked_heads
from regard.runs.looking.as_json import as_json
from regard.runs.looking.costs import costs_of
from regard.runs.looking.heads import aligning_look, alignment, heads_of
from regard.runs.looking.in_terminal import value_lines, walk_lines
from regard.runs.looking.look import Look, look_at_module, look_at_text
from regard.runs.looking.on_page import page
from regard.runs.looking.parts import fitting
from regard.runs.looking.search_steps import search_with_steps
from regard.runs.looking.without import compare_without, comparison_lines
from regard.translator import Translator, load
from unit.runs.toys import small_model, tokenizer, write_bundle

CODE = """
import torch

class Mine(torch.nn.Transformer):
    def __init__(self):
        super().__init__(16, 2, 1, 1, 32, batch_first=True)

class Leaves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(13, 16)
        self.out = torch.nn.Linear(16, 13)
    def forward(self, x):
        return self.out(self.table(x))

class Tagger(Leaves):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    def forward(self, x):
        return self.out(self.layer(self.table(x)))

class Broken(Leaves):
    def forward(self, x):
        raise RuntimeError("no such luck\\nand more")
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "standing_here.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "standing_here", raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_bundle(tmp_path_factory.mktemp("model") / "m"))


@pytest.fixture
def translator(folder: str) -> Translator:
    return load(folder)


@pytest.fixture
def look(translator: Translator) -> Look:
    return look_at_text(translator, "12 3", translation="3 21")


# ---- a sentence ------------------------------------------------------------------------------------------------------


def test_the_sentence_is_walked_with_the_translation_that_a_search_finds(translator: Translator) -> None:
    seen = look_at_text(translator, "12 3", beam=3)
    assert seen.output == translator(["12 3"], beam=3)[0]
    assert list(seen.source) == ["1", "2", "␣", "3", "</s>"] or seen.source[-1] == "</s>"
    assert len(seen.target) == len(seen.read) == len(seen.choices)
    assert seen.read[0] == "<s>" and list(seen.read[1:]) == list(seen.target[:-1])
    assert {kind: list(weights.shape) for kind, weights in seen.maps.items()} == {
        "encoder": [1, 2, 5, 5],
        "decoder": [1, 2, len(seen.target), len(seen.target)],
        "cross": [1, 2, len(seen.target), 5],
    }
    assert seen.searched is not None and seen.searched.steps


def test_a_translation_given_is_looked_at_in_place_of_the_models_own(look: Look, translator: Translator) -> None:
    assert look.output == "3 21" and look.searched is None
    source = torch.tensor([[*translator.source_tokenizer.encode("12 3"), 3]])
    target = torch.tensor([[2, *translator.target_tokenizer.encode("3 21")]])
    with torch.no_grad():
        logits = translator.model(source, target)
    assert torch.equal(look.walk.output, logits)
    first = translator.target_tokenizer.encode("3")[0]
    assert look.choices[0].probability == pytest.approx(logits[0, 0].softmax(-1)[first].item())


def test_text_in_a_terminal_has_the_walk_the_masks_and_the_choices(look: Look) -> None:
    shown = "\n".join(walk_lines(look))
    assert shown.startswith("12 3 → 3 21\n")
    assert "EncoderLayer 1" in shown and "[B=1, S=5, D=8]" in shown and "section 3.2, equation 1" in shown
    assert "decoder.layers:1.self_attention\n■····\n■■···\n■■■··\n■■■■·\n■■■■■" in shown
    assert re.search(r"positions\.embed +\[B=1, S=5, D=8\]", shown)
    assert re.search(r"split_heads +→ 3 × \[B=1, H=2, S=5, K=4\]", shown)
    assert re.search(r"\n  decoder\.layers:1\.cross_attention\.keys_values +→ 2 × \[B=1, H=2, S=5, K=4\]", shown)
    assert re.search(r"scores +→ \[B=1, H=2, T=5, S=5\]", shown) and re.search(r"weights +→ \[B=1, H=2", shown)
    assert re.search(
        r"Where each token looked: 3 of 5 source tokens, in the mean head of decoder\.layer:1\.cross", shown
    )
    assert re.search(r"\n2 +\S+ \d+ %   \S+ \d+ %   \S+ \d+ %\n", shown)
    count = sum(parameter.numel() for parameter in small_model().parameters())
    assert shown.split("\n")[-1].startswith(f"{count:,} parameters: source_embedding ")
    assert re.search(r"after +came +logit +might have come\n<s> +3 +\d", shown)


def test_the_weights_of_heads_are_found_by_many_names(look: Look) -> None:
    names = [name for name, _, _ in heads_of(look.attentions, "layer:1.head:2")]
    assert names == [
        "encoder.layer:1.self.head:2",
        "decoder.layer:1.self.head:2",
        "decoder.layer:1.cross.head:2",
    ]
    [(_, attention, weights)] = heads_of(look.attentions, "decoder.layers.0.cross_attention.head:2")
    assert torch.equal(weights, attention.weights[1]) and attention.weights.shape == (2, 5, 5)
    [(name, _, _)] = heads_of(look.attentions, "decoder.layers:1.cross_attention.head:2")
    assert name == "decoder.layer:1.cross.head:2"  # one name, however it is spelled
    assert [name for name, _, _ in heads_of(look.attentions, "decoder.layer:1")] == [
        "decoder.layer:1.self",
        "decoder.layer:1.cross",
    ]
    drawn = list(value_lines(look, "cross"))
    assert drawn[0] == "decoder.layer:1.cross, mean of its 2 heads"
    assert drawn[1] == "a row: the token that is written; a column: the source token it looks at; a row adds up to 1"
    assert drawn[2].split("\n")[1].split()[0] == "3"
    with pytest.raises(InputError, match=r"there is no 'decoder\.layer:2\.cross'; did you mean 'decoder\.layer:1\."):
        heads_of(look.attentions, "decoder.layer:2.cross")


def test_gradients_are_those_of_the_translations_loss(translator: Translator) -> None:
    seen = look_at_text(translator, "12", translation="2", backward=True)
    source, target = torch.tensor([[*translator.source_tokenizer.encode("12"), 3]]), torch.tensor([[2, 0]])
    [word] = translator.target_tokenizer.encode("2")
    target[0, 1] = word
    model = translator.model
    loss = nn.functional.cross_entropy(model(source, target)[0], torch.tensor([word, 3]))
    [wanted] = torch.autograd.grad(loss, [model.output.weight])
    found = next(g for g in seen.walk.gradients if g.path == "output.weight")
    assert found.norm == pytest.approx(wanted.norm().item(), rel=1e-5)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_beam_of_the_page_is_the_beam_of_the_search(translator: Translator) -> None:
    model, source = translator.model, torch.tensor([[*translator.source_tokenizer.encode("0123"), 3]])
    for options in (SearchOptions(beam=4, max_length=7), SearchOptions(beam=1, max_length=5), translator.search):
        searched = search_with_steps(model, source, options, lambda ids: [str(i) for i in ids])
        steps = searched.steps
        [[best]] = beam_search(model, source, None, options)
        assert searched.found == best
        ways = {}
        for number, step in enumerate(steps):
            assert len(step) <= options.beam
            for rank, beam in enumerate(step):
                before = ways[number - 1, beam.parent] if number else ()
                ways[number, rank] = (*before, int(beam.token)) if not beam.finished else before
                if number:
                    assert beam.parent is not None and not steps[number - 1][beam.parent].finished
                if beam.finished and ways[number, rank] == best.ids:
                    assert beam.score == pytest.approx(best.score)
        assert best.ids in ways.values()
        assert searched.won is not None and ways[searched.won] == best.ids
        step, rank = searched.won
        assert steps[step][rank].score == pytest.approx(best.score)
        assert steps[step][rank].log_prob == pytest.approx(best.log_prob)


class Told:
    """A decoder that ends early with 0.9 · 0.55, and else goes on for long."""

    def start(self, source: torch.Tensor, source_lengths: torch.Tensor | None = None) -> int:
        return 0

    def step(self, tokens: torch.Tensor, state: int) -> Step:
        end, first, second = [(0.0, 0.9, 0.1), (0.55, 0.45, 0.0), (0.1, 0.9, 0.0)][min(state, 2)]
        row = torch.tensor([0.0, 0.0, 0.0, end, first, second]).clamp(min=1e-9).log()
        return Step(row.expand(len(tokens), -1), state + 1)

    def reorder(self, state: int, rows: torch.Tensor) -> int:
        return state


def test_the_winner_need_not_stand_in_the_last_step() -> None:
    # log(0.9 · 0.55) / (7/6)^1.2 = -0.584; four words more may reach log(0.405) / (10/6)^1.2 = -0.49, and do not
    options = SearchOptions(beam=2, max_length=4, length_penalty=1.2)
    searched = search_with_steps(Told(), torch.tensor([[5, 3]]), options, lambda ids: [str(i) for i in ids])
    assert searched.found.ids == (4,) and searched.found.score == pytest.approx(-0.5843, abs=1e-3)
    assert searched.won is not None and len(searched.steps) > 2
    step, rank = searched.won
    assert (step, searched.steps[step][rank].finished) == (1, True)
    assert searched.steps[step][rank].score == searched.found.score


def test_a_search_with_coverage_and_repetitions_is_the_one_that_translates(folder: str) -> None:
    search = SearchOptions(beam=3, max_length=6, coverage_penalty=0.3, no_repeat=1, suppress_unknown=True)
    plain = load(folder)
    other = Translator(plain.model, plain.source_tokenizer, plain.target_tokenizer, search)
    for text in ("12", "0123", "99 1"):
        seen = look_at_text(other, text)
        assert seen.searched is not None
        [[best]] = other.translate([text])
        assert (seen.output, seen.searched.found.score) == (best.text, pytest.approx(best.score))
        assert seen.searched.score == (
            "score = log-probability / ((5 + tokens) / 6)^0.6 + 0.3 × Σ log min(1, attention that a source token has "
            "had); the end mark is a token"
        )


@pytest.mark.parametrize(
    ("text", "translation", "sentence"),
    [
        ("", None, "the sentence is empty"),
        ("1" * 10_000, None, "the sentence has 10,000 tokens, and the model reads at most 28; shorten it"),
        ("1", "2" * 29, "the translation has 29 tokens, and the model reads at most 28"),
        ("1", "", "the translation is empty"),
    ],
)
def test_sentences_that_cannot_be_looked_at(
    translator: Translator, text: str, translation: str | None, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        look_at_text(translator, text, translation=translation)


# ---- costs -----------------------------------------------------------------------------------------------------------


def test_costs_are_those_of_the_ledger_at_the_sizes_asked_for() -> None:
    model = small_model()
    costs = costs_of(model, (2, 7, 5))
    source, target = torch.ones(2, 7, dtype=torch.long), torch.ones(2, 5, dtype=torch.long)
    assert costs.ledger.total.flops == ledger(model.eval(), source, target).total.flops
    # one more step: projections of one token, scores and sums over 5 target and 7 source positions, the vocabulary
    d, f, v = 8, 11, len(tokenizer())
    assert costs.step_flops == 2 * (4 * d * d + 2 * d * 5 + 2 * d * d + 2 * d * 7 + 2 * d * f + d * v)
    with pytest.raises(InputError, match="--sizes must be three numbers of at least 1, but is 1 0 3"):
        costs_of(model, (1, 0, 3))
    with pytest.raises(InputError, match="asks for 30 tokens, and the model reads at most 29"):
        costs_of(model, (1, 30, 3))


# ---- any module ------------------------------------------------------------------------------------------------------


def test_any_module_is_looked_at_with_an_example_drawn_for_it() -> None:
    torch.manual_seed(0)
    seen = look_at_module(nn.Transformer(16, 2, 1, 2, 32, batch_first=True), backward=True)
    assert seen.title.startswith("Transformer (torch.nn.Transformer over vectors")
    assert list(seen.maps["cross"].shape) == [2, 2, 5, 7]
    assert [attention.address for attention in seen.attentions] == [
        "encoder.layer:1.self",
        "decoder.layer:1.self",
        "decoder.layer:2.self",
        "decoder.layer:1.cross",
        "decoder.layer:2.cross",
    ]
    assert seen.walk.gradients and seen.loss == "mean square of the output"
    assert "S=7" in seen.walk.visits[1].inputs[0].axes
    assert seen.example() is not None


def test_a_regard_model_built_in_code_is_looked_at_as_any_other() -> None:
    seen = look_at_module(small_model())
    assert seen.maps.keys() == {"encoder", "decoder", "cross"}
    assert len(seen.choices) == 5


# ---- without ---------------------------------------------------------------------------------------------------------


def files(folder: Path, *, space: str = "") -> tuple[Path, Path]:
    source, target = folder / "test.src", folder / "test.tgt"
    source.write_text("".join(f"{space.join(line)}\n" for line in ("12", "345", "0", "7" * 40)))
    target.write_text("".join(f"{space.join(line)}\n" for line in ("21", "543", "0", "7")))
    return source, target


def test_a_model_is_compared_with_and_without_its_parts(translator: Translator, tmp_path: Path) -> None:
    said: list[str] = []
    rows = list(
        compare_without(
            translator, ["layer:1.head:2", "positions", "layer:1"], *files(tmp_path), metrics=["cer"], say=said.append
        )
    )
    assert [row.name for row in rows] == [
        "",
        "encoder.layer:1.self.head:2",
        "decoder.layer:1.self.head:2",
        "decoder.layer:1.cross.head:2",
        "positions",
    ]
    assert said == [
        "1 pair is longer than the model reads (28 tokens), and left out",
        "encoder.layer:1 cannot be dropped: it is the only one of its stack",
        "decoder.layer:1 cannot be dropped: it is the only one of its stack",
    ]

    def by_hand(model: Transformer) -> tuple[np.ndarray, float]:
        losses, right = [], 0
        for source, target in (("12", "21"), ("345", "543"), ("0", "0")):
            ids = translator.target_tokenizer.encode(target)
            source_ids = torch.tensor([[*translator.source_tokenizer.encode(source), 3]])
            with torch.no_grad():
                logits = model(source_ids, torch.tensor([[2, *ids]]))[0]
            wanted = torch.tensor([*ids, 3])
            losses.append(nn.functional.cross_entropy(logits, wanted, reduction="sum").item())
            right += int((logits.argmax(-1) == wanted).sum())
        return np.array(losses), right / 9

    whole, right = by_hand(translator.model)
    assert rows[0].loss == pytest.approx(whole.sum() / 9, rel=1e-5) and rows[0].right == pytest.approx(right)
    less, _ = by_hand(ablate(translator.model, "positions").model)
    change = (less - whole).sum() / 9
    assert rows[4].change == pytest.approx(change, rel=1e-4)
    spread = np.sqrt(((less - whole - change * np.array([3, 4, 2])) ** 2).sum()) / 9
    assert rows[4].margin == pytest.approx(1.96 * spread, rel=1e-3)
    assert rows[4].figures.keys() == {"cer"}
    drawn = "\n".join(comparison_lines(rows))
    assert drawn.split("\n")[1].startswith("nothing") and "positions" in drawn and "cer" in drawn.split("\n")[0]
    assert rows[1].parameters == rows[0].parameters - (4 * 8 * 4 + 3 * 4)


def test_what_a_pattern_fits() -> None:
    names = ablation_names(small_model())
    assert fitting("head:*", names) == [name for name in names if ".head:" in name]
    assert fitting("cross", names) == ["decoder.layer:1.cross"]
    assert fitting("decoder.*.self", names) == ["decoder.layer:1.self"]
    with pytest.raises(InputError, match=r"there is no 'layer:2'"):
        fitting("layer:2", names)


def test_pairs_of_files_are_aligned_line_by_line(translator: Translator, tmp_path: Path) -> None:
    said: list[str] = []
    lines = list(aligned_lines(translator, *files(tmp_path, space=" "), say=said.append))
    assert len(lines) == 4 and lines[3] == ""
    assert said[0] == "line 4: the sentence has 79 tokens, and the model reads at most 28; shorten it; not aligned"
    # a model that has learnt nothing looks everywhere alike, and that is said once
    assert len(said) == 2 and "looks at all words nearly alike (entropy 9" in said[1]
    look = look_at_text(translator, "1 2", translation="2 1")
    assert lines[0] == alignment(aligning_look(look.attentions))
    assert re.fullmatch(r"\d-\d \d-\d", lines[0])
    with pytest.raises(InputError, match=r"encoder\.layer:1\.self is no cross-attention"):
        list(aligned_lines(translator, *files(tmp_path), "encoder.layer:1", say=said.append))


def test_flat_attention_is_doubted_and_sharp_is_not() -> None:
    assert doubt_of_flat(0.89) is None
    assert "entropy 95 % of the largest possible" in str(doubt_of_flat(0.95))


def test_the_layer_that_aligns_is_the_last_but_one() -> None:
    look = look_at_module(build(replace(small_model().spec, decoder_layers=3)))
    assert aligning_look(look.attentions).address == "decoder.layer:2.cross"


def test_heads_are_ranked_by_links_that_people_made(translator: Translator, tmp_path: Path) -> None:
    source, target = files(tmp_path, space=" ")
    heads = look_at_text(translator, "3 4 5", translation="5 4 3").attentions
    wanted = [alignment(aligning_look(look_at_text(translator, a, translation=b).attentions, "cross.head:2"))
              for a, b in (("1 2", "2 1"), ("3 4 5", "5 4 3"), ("0", "0"))]  # fmt: skip
    links = tmp_path / "links"
    links.write_text("".join(f"{line}\n" for line in [*wanted, ""]))
    said: list[str] = []
    ranking = ranked_heads(translator, source, target, links, say=said.append)
    assert {one.name for one in ranking} == {"decoder.layer:1.cross" + end for end in ("", ".head:1", ".head:2")}
    assert ranking[0].error_rate == 0.0 and "decoder.layer:1.cross.head:2" in {
        one.name for one in ranking if one.error_rate == 0.0
    }
    assert heads_of(heads, ranking[0].name)
    assert len(said) == 1 and said[0].startswith("line 4: ")
    links.write_text("0-0\n")
    with pytest.raises(DataError, match=r"links has 1 line and .*test\.src 4"):
        ranked_heads(translator, source, target, links, say=said.append)
    links.write_text("0-0\n0:0\n")
    with pytest.raises(DataError, match=r"links:2: an alignment must be like"):
        ranked_heads(translator, source, target, links, say=said.append)


# ---- the verb --------------------------------------------------------------------------------------------------------


def test_the_verb_prints_what_is_asked_for(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", folder, "12"]) == 0
    said = capsys.readouterr()
    assert "From logits to tokens" in said.out
    assert all(flag in said.err for flag in ("--html", "--value", "--alignments", "--backward", "--ledger", "--json"))
    assert run(["inspect", folder, "12", "-q"]) == 0
    assert capsys.readouterr().err == ""
    assert run(["inspect", folder, "--ledger", "--depth", "0"]) == 0
    out = capsys.readouterr().out
    assert out.split("\n")[1].startswith("Transformer") and "training step holds" in out
    assert run(["inspect", folder, "12", "--value", "cross.head:1", "--alignments", "--backward"]) == 0
    out = capsys.readouterr().out
    assert "decoder.layer:1.cross.head:1" in out and "Gradients of the mean cross-entropy" in out
    assert "From logits" not in out
    assert run(["inspect", folder, "1 2", "--translation", "2 1", "--alignments"]) == 0
    assert re.fullmatch(r"\d-\d \d-\d\n", capsys.readouterr().out)
    words = ["inspect", folder, "12", "--json", "--ledger", "--value", "cross.head:1", "--alignments", "--backward"]
    assert run(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"visits", "masks", "choices", "gradients", "values", "alignment", "beam", "ledger", "sizes"} <= set(found)
    source, target = files(tmp_path)
    assert run(["inspect", folder, "--without", "positions", "-s", str(source), "-t", str(target), "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["", "positions"]
    assert run(["inspect", folder, "--alignments", "-s", str(source), "-t", str(target)]) == 0
    assert capsys.readouterr().out.count("\n") == 4
    links = tmp_path / "links"
    links.write_text("0-1 1-0\n0-2\n\n\n")
    words = ["inspect", folder, "--best-head", str(links), "-s", str(source), "-t", str(target)]
    assert run(words) == 0
    said = capsys.readouterr()
    assert said.out.split("\n")[0].split() == ["by", "alignment", "error", "rate"] and said.out.count("\n") == 4
    assert run([*words, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 3


def test_the_verb_writes_a_page(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "look.html"
    assert run(["inspect", folder, "12", "--html", str(file)]) == 0
    said = capsys.readouterr()
    assert said.out == "" and f"{file}: attention, walk, ledger and beam; open it in a browser" in said.err
    data = json.loads(re.search(r'id="data">(.*?)</script>', file.read_text(encoding="utf-8"), re.DOTALL)[1])
    assert [section["type"] for section in data["sections"]] == ["attention", "walk", "ledger", "beam"]


def test_a_module_that_reads_one_side_has_that_sides_letter() -> None:
    walk = look_at_module(_Reader()).walk
    assert walk.at("out")[0].inputs[0].axes == "B=1, S=7, D=16"


def test_the_page_opens_on_the_layer_that_alignments_are_taken_from() -> None:
    for layers, wanted in ((3, 1), (1, 0)):
        text, told = page(look_at_module(build(replace(small_model().spec, decoder_layers=layers))), None)
        attention = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])["sections"][0]
        assert attention["layer"] == attention["examples"][0]["aligning"] == wanted
        assert attention["examples"][0]["facts"] == [] and told == "attention and walk"
    _, told = page(None, costs_of(small_model(), (1, 2, 3)))
    assert told == "ledger"


def test_the_verb_looks_at_code(code: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", "standing_here:Mine"]) == 0
    assert "TransformerDecoderLayer 1" in capsys.readouterr().out
    assert run(["inspect", "standing_here:Tagger", "--value", "layer:1.head:2"]) == 0
    assert capsys.readouterr().out.startswith("layer:1.self.head:2\n")
    assert run(["inspect", "standing_here:Tagger", "--ledger"]) == 0
    assert "TransformerEncoderLayer" not in capsys.readouterr().err
    assert run(["inspect", "standing_here:Leaves", "--html", "x.html"]) == 0
    assert "no attention was heard" in capsys.readouterr().err
    assert "walk" in (tmp_path / "x.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["FOLDER"], "give a sentence to look at"),
        (["FOLDER", ""], "the sentence is empty"),
        (["FOLDER", "1" * 10_000], "has 10,000 tokens, and the model reads at most 28"),
        (["FOLDER", "1" * 10_000, "--html", "x.html"], "has 10,000 tokens, and a page shows at most 512"),
        (["FOLDER", "12", "--html", "no/folder/x.html"], "cannot be written"),
        (["FOLDER", "12", "--value", "layer:7.head:1"], "there is no 'layer:7.head:1'; did you mean"),
        (["FOLDER", "--ledger", "--value", "cross"], "this needs a sentence to look at"),
        (["FOLDER", "12", "--alignments", "--align-by", "encoder.layer:1"], "is no cross-attention"),
        (["FOLDER", "12", "--without", "positions"], "test files take --source and --target"),
        (["FOLDER", "--without", "positions", "-s", "FILE"], "test files take --source and --target"),
        (
            ["FOLDER", "-s", "FILE", "-t", "FILE"],
            "test files are for one of --without PART, --alignments and --best-head LINKS",
        ),
        (["FOLDER", "--best-head", "FILE"], "needs the files of the pairs too"),
        (
            ["FOLDER", "--without", "positions", "--align-by", "cross", "-s", "FILE", "-t", "FILE"],
            "is for --alignments",
        ),
        (["FOLDER", "--without", "positions", "--sizes", "2", "3", "5", "-s", "FILE", "-t", "FILE"], "has no meaning"),
        (["FOLDER", "--alignments", "--metric", "bleu", "-s", "FILE", "-t", "FILE"], "is for --without PART alone"),
        (["FOLDER", "12", "--metric", "bleu"], "is for --without PART alone"),
        (["FOLDER", "--without", "layer:9", "-s", "FILE", "-t", "FILE"], "there is no 'layer:9'"),
        (["FOLDER", "--without", "encoder.layer:1", "-s", "FILE", "-t", "FILE"], "it is the only one of its stack"),
        (["FOLDER", "--without", "positions", "-s", "nowhere", "-t", "FILE"], "nowhere: there is no such file"),
        (["nowhere", "12"], "there is no model folder nowhere"),
        (["DAMAGED", "12"], "differs from the manifest"),
        (["standing_here:Mine", "12"], "has no tokenizer and reads no text"),
        (["standing_here:Broken"], "the module does not run: RuntimeError: no such luck"),
        (["standing_here:Leaves", "--value", "layer:1"], "no attention was heard in this module"),
        (["standing_here:Nobody"], "has no 'Nobody'"),
    ],
)
def test_what_cannot_be_shown_is_told_in_words(
    code: None,
    folder: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    sentence: str,
) -> None:
    source, _ = files(tmp_path)
    damaged = write_bundle(tmp_path / "damaged")
    weights = damaged / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x07")
    names = {"FOLDER": folder, "FILE": str(source), "DAMAGED": str(damaged)}
    assert run(["inspect", *(names.get(word, word) for word in words)]) == 2
    said = capsys.readouterr()
    assert sentence in said.err and "Traceback" not in said.err
    assert said.out == ""


def test_what_a_program_reads_has_no_number_that_json_lacks(look: Look) -> None:
    nan = look_at_module(_Nan())
    json.dumps(as_json(nan, None), allow_nan=False)
    assert "visits" in as_json(look, None)
    page(nan, None)


class _Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.out = nn.Linear(16, 5)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        return self.out(self.layer(frames))


class _Nan(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(13, 16)
        self.out = nn.Linear(16, 13)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.table(x)) * float("nan")
