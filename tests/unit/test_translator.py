"""The translator: order, empty lines, modes, lengths, tags; and a search that knows nothing of it as oracle."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any

import pytest
import torch

import regard
from regard.data import train_exact
from regard.errors import DamagedError, InputError, RecipeError
from regard.generation import SamplingOptions, SearchOptions, generate
from regard.models import packed
from regard.protocols import EOS, Step
from regard.translation.request import as_requests
from regard.translator import Translator, load_ensemble
from unit.runs.toys import small_model, tokenizer, write_bundle

TEXTS = ["12345", "", "7", "0a0 b", "99", "", "1234567890"]


@pytest.fixture
def translator() -> Translator:
    return Translator(small_model(), tokenizer(), tokenizer(), SearchOptions(beam=3, max_length=7))


def test_each_text_gets_what_it_gets_alone(translator: Translator) -> None:
    together = translator(TEXTS)
    assert together == [translator([text])[0] for text in TEXTS]
    assert [together[1], together[5]] == ["", ""]


def test_a_blank_text_is_an_empty_one(translator: Translator) -> None:
    """The tokens are letters, so each space is one; a text is not blank for spaces around it."""
    blanks = ["   ", "\t", "\u3000 \u2003"]
    assert translator([*blanks, " 1"], beam=2) == ["", "", "", *translator([" 1"], beam=2)]
    assert translator.translate(blanks[:1]) == translator.translate([""])
    assert [*translator.stream(" ")] == []
    assert translator.score(["  ", ""], ["7", "7"])[0] == translator.score(["  ", ""], ["7", "7"])[1]
    assert translator([" 1"]) != [""]


def test_the_search_is_the_one_of_the_generation_room(translator: Translator) -> None:
    model, search = translator.model.eval(), replace(translator.search, nbest=3)
    (found,) = generate(model, torch.tensor([[*tokenizer().encode("123"), EOS]]), None, search)
    (ours,) = translator.translate(["123"], search)
    assert [one.ids for one in ours] == [hypothesis.ids for hypothesis in found]
    assert [one.score for one in ours] == pytest.approx([hypothesis.score for hypothesis in found], abs=1e-6)
    assert ours[0].text == tokenizer().decode(found[0].ids)


@pytest.mark.skipif(not packed._can_pack(), reason="this torch has no packed products")
def test_wide_matrices_are_packed_once_and_again_when_weights_change(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = translator(TEXTS)
    packings: list[torch.Tensor] = []
    pack = packed._pack
    monkeypatch.setattr(packed, "WIDE", 1)
    monkeypatch.setattr(packed, "_pack", lambda weight: packings.append(weight) or pack(weight))  # type: ignore[func-returns-value]
    assert translator(TEXTS) == plain
    wide = len(packings)
    assert wide > 1
    assert translator(TEXTS) == plain
    assert len(packings) == wide
    translator.model.output.weight.data.neg_()
    assert translator(TEXTS) != plain
    assert len(packings) == wide + 1


def test_beam_of_one_call_is_not_kept(translator: Translator) -> None:
    assert translator(["123"], beam=1) == [
        translator.translate(["123"], SearchOptions(beam=1, max_length=7))[0][0].text
    ]
    assert translator.search.beam == 3


@pytest.mark.parametrize("training", [True, False])
def test_the_callers_mode_is_back_afterwards(translator: Translator, training: bool) -> None:
    translator.model.train(training)
    first = translator(TEXTS)
    assert translator.model.training is training
    assert translator(TEXTS) == first  # dropout was off
    with pytest.raises(InputError):
        translator(["1"], tag="nothing")
    assert translator.model.training is training


def test_two_threads_may_share_one(translator: Translator) -> None:
    """The other begins within a step of ours and ends after us; both look at attention, for the coverage penalty."""
    model, search = translator.model.train(), replace(translator.search, coverage_penalty=0.3)
    expected = [translator.translate([text], search) for text in ("12345", "7")]
    step, entered, left = model.step, Event(), Event()
    theirs: list[object] = []
    other = Thread(target=lambda: theirs.extend(translator.translate(["7"], search)))

    def interleaved(tokens: torch.Tensor, state: object) -> Step:
        if not entered.is_set():
            if current_thread() is other:
                entered.set()
                left.wait(60)
            else:
                other.start()
                entered.wait(60)
        return step(tokens, state)

    model.step = interleaved  # type: ignore[method-assign, assignment]
    ours = translator.translate(["12345"], search)
    left.set()
    other.join()
    assert [ours, theirs] == expected
    assert model.training


REQUESTS = """
import os, random, sys
from pathlib import Path
import regard
translator, draw = regard.load(sys.argv[1]), random.Random(3)
def ask(count):
    for _ in range(count):
        translator(["".join(draw.choices("0123456789", k=draw.randint(1, 28)))])
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
warm, count = map(int, sys.argv[2:])
print(-ask(warm) + ask(count))
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells what is resident there")
def test_requests_of_any_length_leave_no_memory_behind(tmp_path: Path) -> None:
    program = [sys.executable, "-c", REQUESTS, str(write_bundle(tmp_path / "m")), "1000", "10000"]
    grown = int(subprocess.run(program, capture_output=True, check=True, text=True).stdout)
    assert grown < 1 << 20, f"{grown:,} bytes more after 10,000 requests"


def test_a_part_kept_in_evaluation_mode_stays_in_it(translator: Translator) -> None:
    translator.model.train()
    translator.model.encoder.eval()
    translator(["1"])
    assert translator.model.decoder.training
    assert not translator.model.encoder.training


def test_a_text_longer_than_the_model_is_cut_and_says_so(translator: Translator) -> None:
    longest = translator.model.spec.max_len - 1
    whole, cut = translator.translate(["1" * longest, "1" * (longest + 1)])
    assert (whole[0].source_cut, cut[0].source_cut) == (False, True)
    assert whole[0].text == cut[0].text


def test_an_output_never_outgrows_the_model() -> None:
    translator = Translator(
        small_model(), tokenizer(), tokenizer(), SearchOptions(beam=1, min_length=99, max_length=99)
    )
    translator.search = replace(translator.search, max_length_ratio=9.0, min_length=99)
    (best,) = translator.translate(["12345"])[0]
    assert len(best.ids) == translator.model.spec.max_len - 1


def test_tags_are_one_token_before_the_text() -> None:
    source = train_exact("char", ["123"], tags=["de", "fr"])
    model = small_model()
    translator = Translator(model, source, tokenizer(), SearchOptions(beam=1, max_length=5))
    seen = []
    inner = model.start
    model.start = lambda ids, lengths=None: (seen.append(ids.tolist()), inner(ids, lengths))[1]  # type: ignore[method-assign]
    translator(["12", "3"], tag=["fr", ""])
    assert seen == [[[source.tag_id("fr"), *source.encode("12"), EOS], [*source.encode("3"), EOS, 0, 0]]]
    with pytest.raises(InputError, match="2 for 1"):
        translator(["1"], tag=["de", "fr"])


def test_one_string_is_no_list(translator: Translator) -> None:
    with pytest.raises(InputError, match=r"write \[text\]"):
        translator("123")
    assert translator([]) == []


def test_load_brings_the_search_of_the_recipe(tmp_path: Path) -> None:
    loaded = regard.load(write_bundle(tmp_path / "m"))
    assert (loaded.search.beam, loaded.search.max_length) == (2, 7)
    assert loaded.recipe["generation"]["beam"] == 2


def test_load_reads_a_device_as_commands_do(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "m")
    assert regard.load(folder, "auto")(["123"]) == regard.load(folder, torch.device("cpu"))(["123"])
    with pytest.raises(RecipeError, match="device 'gpu' cannot be used here: only auto, cpu, cuda and mps are known"):
        regard.load(folder, "gpu")


@pytest.mark.parametrize("paths", [[], "m"])
def test_an_ensemble_is_a_list_of_folders(paths: list[str] | str) -> None:
    with pytest.raises(InputError, match="must be a list of folders, at least one"):
        load_ensemble(paths)


def test_options_are_the_same_after_a_folder() -> None:
    search = SearchOptions(beam=5, groups=5, sampling=SamplingOptions(samples=3, temperature=0.5))
    assert SearchOptions.from_table(json.loads(json.dumps(asdict(search)))) == search


def test_a_beam_asked_for_is_a_plain_beam_search(translator: Translator) -> None:
    plain = translator(["123"], beam=2)
    translator.search = SearchOptions(beam=3, groups=3, max_length=7, sampling=SamplingOptions(seed=7))
    assert translator(["123"], beam=2) == plain


def test_search_options_of_another_version_are_refused(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "m")
    config = (folder / "config.json").read_text().replace('"beam"', '"beams"')
    (folder / "config.json").write_text(config)
    regard.storage.reseal(folder)
    with pytest.raises(DamagedError, match="search options"):
        regard.load(folder)


class Mixed(list[str]):
    """Texts to the type checker of the tests, which takes one by its number, and not to others."""

    def __getitem__(self, place: Any) -> Any:
        return "1"


@pytest.mark.parametrize("other", [None, 2, b"1"])
def test_what_is_no_text_is_named(other: Any) -> None:
    with pytest.raises(InputError, match="text 2 must be a string or a request, but is "):
        as_requests(Mixed(["1", other]), "")


def test_a_beam_is_a_number(translator: Translator) -> None:
    with pytest.raises(RecipeError, match=r"`generation\.beam` must be a whole number, but is True"):
        replace(translator.search, beam=True)


def test_an_output_is_one_line() -> None:
    lines = train_exact("byte", [])
    model = small_model()
    spec = replace(model.spec, target_vocab=len(lines))
    translator = Translator(regard.build(spec), tokenizer(), lines, SearchOptions(beam=1))
    newline = lines.encode("\n")[0]
    translator.model.output.bias.data[newline] = 99.0
    (text,) = translator(["12"])
    assert text.strip() == "" and "\n" not in text
