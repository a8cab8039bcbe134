"""Does a glossary change what it must and nothing else?

Translates a file twice, without and with a glossary, and prints how many lines a term touches, in how many of these the
wanted phrase then stands, how many of the other lines differ, and how near the two translations of a touched line are
to the reference and, the wanted phrase taken out, to each other.

    python benchmarks/glossary.py MODEL --source test.en --reference test.de --glossary terms.tsv
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from sacrebleu.metrics import CHRF

import regard
from regard.data import read_lines
from regard.translation import Request, read_glossary
from regard.translation.words import occurrences


def chrf(outputs: Sequence[str], references: Sequence[str]) -> float:
    return CHRF().corpus_score(outputs, [references]).score


def without(phrases: Sequence[str], text: str) -> str:
    for phrase in phrases:
        text = text.replace(phrase, "", 1)
    return " ".join(text.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--glossary", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    words = parser.parse_args()
    torch.set_num_threads(words.threads)

    translator = regard.load(words.model)
    glossary = read_glossary(words.glossary)
    texts, references = list(read_lines(words.source)), list(read_lines(words.reference))
    search = replace(translator.search, nbest=1)
    wanted = [glossary.constraints(text) for text in texts]
    plain = [best.text for best, *_ in translator.translate(texts, search)]
    asked = [Request(text, constraints=phrases) for text, phrases in zip(texts, wanted, strict=True)]
    bound = [best.text for best, *_ in translator.translate(asked, search)]

    touched = [line for line, phrases in enumerate(wanted) if phrases]
    kept = sum(all([*occurrences(phrase, bound[line])] for phrase in wanted[line]) for line in touched)
    already = sum(all([*occurrences(phrase, plain[line])] for phrase in wanted[line]) for line in touched)
    others = [line for line, phrases in enumerate(wanted) if not phrases]
    differ = sum(plain[line] != bound[line] for line in others)
    print(f"{len(touched):,} of {len(texts):,} lines have a term")
    print(f"all their phrases stand in {already:,} of them without the glossary, in {kept:,} with it")
    print(f"{differ:,} of the {len(others):,} other lines differ")

    def of(lines: Sequence[str]) -> list[str]:
        return [lines[line] for line in touched]

    print(f"chrF of the touched lines: {chrf(of(plain), of(references)):.1f} without, ", end="")
    print(f"{chrf(of(bound), of(references)):.1f} with the glossary")
    rest = [without(wanted[line], bound[line]) for line in touched]
    print(f"chrF of the rest of a touched line against what it was without: {chrf(rest, of(plain)):.1f}")


if __name__ == "__main__":
    main()
