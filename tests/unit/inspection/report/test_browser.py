"""The page in a real browser: pointer, keys, themes, text of all directions, and no complaint on the console."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

import regard.models
from regard.inspection import choices, ledger, trace
from regard.inspection.report import (
    AttentionSection,
    Beam,
    BeamSection,
    Example,
    LedgerSection,
    WalkSection,
    render_page,
)

sync_api = pytest.importorskip("playwright.sync_api")
if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium in the PATH (Debian: apt-get install chromium)")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def diagonal(layers: int, heads: int, rows: int, columns: int) -> Tensor:
    """Row i looks at column i with 0.7; what is left goes to the last column."""
    weights = torch.zeros(layers, heads, rows, columns)
    for row in range(rows):
        weights[:, :, row, min(row, columns - 1)] += 0.7
        weights[:, :, row, -1] += 0.3
    return weights


def example(source: list[str], target: list[str], **changes: object) -> Example:
    cross = diagonal(2, 3, len(target), len(source))
    cross[1, 2] = cross[1, 2].flip(-1)  # one head looks the other way
    maps = {"cross": cross, "encoder": diagonal(2, 3, len(source), len(source))}
    return Example(source, target, maps, **changes)  # type: ignore[arg-type]


EXAMPLES = [
    example([*"rhyme", "</s>"], ["R", "AY", "M", "</s>"], facts={"dictionary": "R AY M"}, correct=True),
    example(["الانتباه", "هو", "كل", "</s>"], ["注意", "👩‍👩‍👧", "<script>alert(1)</script>", "</s>"], correct=False),
    example([f"s{i}" for i in range(200)], [f"t{i}" for i in range(190)], title="Two hundred"),
    example(["A"], [" "]),
]


def whole_report() -> str:
    """A page with every tab."""
    torch.manual_seed(0)
    model = nn.Transformer(12, 2, 3, 1, 19, batch_first=True)
    inputs = torch.randn(1, 7, 12), torch.randn(1, 5, 12)
    walk = trace(model, *inputs, loss=lambda y: y.square().mean())
    steps = [
        [Beam("A", -0.3), Beam("The", -0.9)],
        [Beam("dog", -0.5, 0), Beam("cat", -1.1, 1)],
        [Beam("</s>", -0.6, 0, finished=True, log_prob=-0.9), Beam("runs", -1.2, 1)],
        [Beam("fast", -1.3, 1)],
    ]
    logits = torch.tensor([[0.0, 2.0], [1.0, 0.0]])
    steps_taken = choices(logits, ["<s>", "yes"], [1, 1], lambda ids: [["no", "yes"][i] for i in ids])
    sections = [
        AttentionSection(EXAMPLES),
        WalkSection(walk, steps_taken),
        LedgerSection(ledger(model, *inputs)),
        BeamSection(steps, (2, 0), "score = a sum"),
    ]
    return render_page("Look", sections)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file: Path = tmp_path_factory.mktemp("report") / "look.html"
    file.write_text(whole_report(), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


@contextmanager
def shown_in(browser: Browser, report: Path) -> Iterator[Page]:
    complaints: list[str] = []
    shown = browser.new_page(viewport={"width": 1280, "height": 1000})
    shown.on("console", lambda message: complaints.append(message.text))
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.on("dialog", lambda dialog: complaints.append(dialog.message))
    shown.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
    shown.goto(report.as_uri())
    yield shown
    shown.close()
    assert complaints == []


@pytest.fixture
def page(browser: Browser, report: Path) -> Iterator[Page]:
    with shown_in(browser, report) as shown:
        yield shown


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a model with one table for all, one look, and one hypothesis."""
    torch.manual_seed(0)
    spec = replace(regard.models.preset("tiny", source_vocab=5003, target_vocab=5003), tie="all")
    model = regard.models.build(spec).eval()
    inputs = torch.randint(4, 23, (1, 113)), torch.randint(4, 23, (1, 101))
    sections = [
        AttentionSection([Example(["a", "b"], ["c"], {"cross": diagonal(1, 1, 1, 2)}, title="Look")]),
        WalkSection(trace(model, *inputs)),
        LedgerSection(ledger(model, *inputs)),
        BeamSection([[Beam("A", -0.3)]]),
    ]
    file: Path = tmp_path_factory.mktemp("tied") / "look.html"
    file.write_text(render_page("Look", sections), encoding="utf-8")
    return file


def looks(page: Page) -> str:
    """What the page says of the chosen token, without line breaks."""
    return " ".join(page.inner_text(".weave .looks").split())


def test_hovering_a_target_token_shows_where_it_looked_and_a_source_token_who_looked(page: Page) -> None:
    page.click('.heads [data-layer="0"][data-head="0"]')
    page.hover('.queries .token:has-text("AY")')
    assert looks(page) == "AY looks at h 70 % </s> 30 % 4 of 6 not shown, 0 % together; show all"
    page.click(".rest")
    assert looks(page).endswith("e 0 % all 6; show the first")
    page.click(".rest")
    assert page.inner_text(".token.chosen") == "AY"
    colours = page.eval_on_selector_all(".keys .token", "tokens => tokens.map((token) => token.style.background)")
    assert len({colours[0], colours[2], colours[3], colours[4]}) == 1
    assert len({colours[0], colours[1], colours[5]}) == 3
    assert page.locator(".ribbon path").count() > 4
    page.hover('.keys .token:has-text("h")')
    assert looks(page) == "h is looked at by AY 70 % 3 of 4 not shown, 0 % together; show all"


def test_layer_head_mean_and_kind_can_be_chosen(page: Page) -> None:
    assert page.inner_text(".bar .note") == "mean of all layers, mean of all heads"
    page.click('.heads [data-layer="1"][data-head="2"]')
    assert page.inner_text(".bar .note") == "layer 2, head 3"
    page.hover(".queries .token:nth-child(1)")
    assert looks(page).startswith("R looks at </s> 70 % r 30 % 4 of 6 not shown")
    page.click('.heads [data-layer="mean"][data-head="mean"]')
    # five of six heads look at r with 0.7, one with 0.3
    assert looks(page).startswith("R looks at r 63 %")
    page.click('.choice button:has-text("Source → source")')
    assert page.locator(".queries .token").count() == 6
    assert page.locator(".choice [aria-pressed=true]").inner_text() == "Source → source"


def test_everything_can_be_done_from_the_keyboard(page: Page) -> None:
    page.keyboard.press("ArrowRight")
    assert looks(page).startswith("AY looks at")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert looks(page).startswith("R looks at")
    for key, shown in [
        ("l", "layer 1 (the one that alignments are taken from), mean of all heads"),
        ("h", "layer 1 (the one that alignments are taken from), head 1"),
        ("h", "layer 1 (the one that alignments are taken from), head 2"),
        ("H", "layer 1 (the one that alignments are taken from), head 1"),
        ("L", "mean of all layers, head 1"),
        ("L", "layer 2, head 1"),
        ("m", "mean of all layers, mean of all heads"),
    ]:
        page.keyboard.press(key)
        assert page.inner_text(".bar .note") == shown
    page.keyboard.press("k")
    assert page.locator(".choice [aria-pressed=true]").inner_text() == "Source → source"
    page.keyboard.press("L")
    assert page.inner_text(".bar .note") == "layer 2, mean of all heads"
    page.keyboard.press("m")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("h2") == "الانتباه هو كل"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert page.inner_text("h2") == "rhyme"
    page.focus(".heads [aria-pressed=true]")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".bar .note") == "layer 2, head 3"
    assert page.evaluate("document.activeElement.dataset.head") == "2"


def test_the_heat_map_tells_the_weight_below_the_pointer(page: Page) -> None:
    page.click('.heads [data-layer="0"][data-head="0"]')
    box = page.locator(".cells").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 1.5 / 6, box["y"] + box["height"] * 1.5 / 4)
    assert page.inner_text(".under") == "AY → h 70 %"
    assert page.inner_text(".rows .chosen") == "AY"
    assert page.inner_text(".map .legend").startswith("Rows ↓: Target, as written. Columns →: Source. A row is what")
    assert page.inner_text(".corner").split("\n") == ["Source →", "Target, as written ↓"]
    assert page.inner_text(".ramp").split() == ["0", "1", "4", "10", "25", "50", "100"]
    picture = "canvas => canvas.toDataURL()"
    light = page.eval_on_selector(".cells canvas", picture)
    page.click("#theme")
    page.click("#theme")
    assert page.inner_text("#theme") == "Theme: dark"
    assert page.eval_on_selector(".cells canvas", picture) != light


def test_right_to_left_text_runs_right_to_left_and_arrow_keys_follow_the_eye(page: Page) -> None:
    page.keyboard.press("ArrowDown")
    lefts = page.eval_on_selector_all(".keys .token", "all => all.map((t) => t.getBoundingClientRect().left)")
    assert lefts == sorted(lefts, reverse=True)
    page.click(".keys .token:nth-child(1)")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".token.chosen") == "هو"
    assert page.inner_text(".queries .token:nth-child(3)") == "<script>alert(1)</script>"


def test_two_hundred_tokens_fit_the_page_and_scroll_inside_it(page: Page) -> None:
    page.click('.examples button:has-text("Two hundred")')
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.click(".queries .token:nth-child(150)")
    page.keyboard.press("ArrowRight")
    assert looks(page).startswith("t150 looks at s150")
    assert page.eval_on_selector(".map .scroll", "box => box.scrollTop") > 0
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_one_token_and_a_blank_one(page: Page) -> None:
    page.click(".examples button:nth-child(4)")
    assert looks(page) == "␣ looks at A 100 %"


def test_the_walk_is_followed_module_by_module(page: Page) -> None:
    page.click("#tab-1")
    # what shape enters layer 3?
    row = page.locator('#section-1 tr[data-path="encoder.layers.2"]')
    assert row.locator(".name span").inner_text() == "TransformerEncoderLayer 3"
    assert row.locator("td").nth(1).inner_text() == "[B=1, S=7, D=12]"
    row.click()
    assert page.inner_text(".detail h2") == "TransformerEncoderLayer 3"
    assert page.inner_text(".detail .formula") == "self-attention, then feed-forward"
    assert page.inner_text(".detail .note >> nth=0").startswith("encoder.layers:3 · TransformerEncoderLayer · ")
    assert "counted from 1" in page.inner_text("#section-1 .keys-help")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".detail h2") == "self_attn"
    assert page.locator(".detail canvas").count() == 1
    assert "in_proj_weight" in page.inner_text(".detail")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert page.locator('#section-1 tr[data-path="encoder.layers.2.self_attn"]').is_hidden()
    card = page.locator(".aside .looks")
    assert " ".join(card.inner_text().split()).endswith(
        "<s> came yes with 88 %; the 2 most probable: yes 88 % (logit 2) no 12 % (logit 0)"
    )
    card.locator("button").nth(1).hover()
    assert "after yes came yes with 27 %, number 2 of all" in " ".join(card.inner_text().split())


def test_the_whole_walk_fits_a_window_of_1300_and_scrolls_in_a_narrow_one(browser: Browser, tied: Path) -> None:
    with shown_in(browser, tied) as page:
        page.set_viewport_size({"width": 1300, "height": 800})
        page.click("#tab-1")
        row = page.locator('#section-1 tr[data-path="decoder.layers.0.cross_attention.keys_values"]')
        assert row.locator("td").nth(1).inner_text() == "→ 2 × [B=1, H=4, S=113, K=32]"
        assert "wall time of one run" in page.inner_text("#section-1 .keys-help")
        room = "box => box.clientWidth - box.scrollWidth"
        assert page.eval_on_selector("#section-1 .tall", room) == 0
        assert page.eval_on_selector("#section-1 .detail .facts-table", room) == 0
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.eval_on_selector("#section-1 .tall", room) < 0


def test_what_is_shared_says_so_in_its_row_and_memory_is_told_in_bytes(browser: Browser, tied: Path) -> None:
    with shown_in(browser, tied) as page:
        page.click("#tab-2")
        assert page.locator("#section-2 thead").inner_text().split("\t")[1:3] == ["Parameters", "Memory"]
        for path, told in (("target_embedding", ""), ("output", "5,003, the rest ")):
            cells = page.locator(f'#section-2 tr[data-path="{path}"] td')
            assert cells.nth(1).inner_text().strip() == f"{told}shared with source_embedding"
            assert cells.nth(1).locator("small").get_attribute("title") == "source_embedding.vectors.table.weight"
        whole = page.locator('#section-2 tr[data-path=""] td')
        assert "shared" not in whole.nth(1).inner_text() and whole.nth(2).inner_text().strip().endswith(" MB")


def test_keys_that_do_nothing_are_not_told(page: Page, browser: Browser, tied: Path) -> None:
    keys = "#section-{} .keys-help kbd"
    assert page.locator(keys.format(0)).all_inner_texts() == ["← →", "↑ ↓", "L", "H", "M", "K"]
    with shown_in(browser, tied) as alone:
        assert alone.locator(keys.format(0)).all_inner_texts() == ["← →"]
        assert "Shift" not in alone.inner_text("#section-0 .keys-help")
        assert alone.locator("h2").is_hidden()  # it is the title of the page
        alone.click("#tab-3")
        assert alone.locator(keys.format(3)).all_inner_texts() == []


def test_the_ledger_says_where_the_parameters_sit(page: Page) -> None:
    page.click("#tab-2")
    sentence = page.locator("#section-2 .lead")
    assert sentence.inner_text().startswith("Transformer: ")
    page.click('#section-2 tr[data-path="encoder"]')
    assert "of all" in sentence.inner_text()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert sentence.inner_text().startswith("encoder.layers:1: ")


def test_a_hypothesis_is_followed_through_the_beam(page: Page) -> None:
    page.focus("#tab-0")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".hypothesis") == "A dog </s>"  # which won, though the last step holds another
    told = "Step 3 of 4, rank 1, score -0.600 from log-probability -0.900 and 3 tokens, finished: ★ the output"
    assert page.inner_text("#section-3 .note") == told
    assert page.inner_text(".beam .won").split() == ["</s>", "★"]
    assert "★ is the output" in page.inner_text("#section-3 .legend")
    assert page.inner_text("#section-3 .legend").endswith("score = a sum")
    page.click('.beam .token:has-text("runs")')
    assert page.inner_text(".hypothesis") == "The cat runs"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    assert page.inner_text(".hypothesis") == "A dog"
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".hypothesis") == "A dog </s>"
