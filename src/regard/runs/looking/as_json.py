"""What does a program get of what was seen? All of it, in the types that JSON has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.inspection.report import BeamSection, LedgerSection, WalkSection
from regard.runs.looking.costs import Costs
from regard.runs.looking.heads import aligning_look, alignment, heads_of
from regard.runs.looking.look import Look


def as_json(
    look: Look | None,
    costs: Costs | None,
    *,
    values: Sequence[str] = (),
    align: bool = False,
    align_by: str | None = None,
) -> dict[str, Any]:
    """Return what was seen; paths are those of Python, which count from 0.

    Args:
        look: At an example.
        costs: Of the model.
        values: Heads whose weights are wanted, see `heads_of`.
        align: Which source word became which target word is wanted.
        align_by: By which heads, see `aligning_look`.

    Raises:
        InputError: No attention has such a name.
    """
    found: dict[str, Any] = {}
    if look is not None:
        walk = WalkSection(look.walk, look.choices).data()
        found |= {
            "input": look.title,
            "output": look.output,
            "source": list(look.source),
            "target": list(look.target),
            "visits": walk["visits"],
            "masks": {path: mask.int().tolist() for path, mask in look.walk.masks.items()},
            "choices": walk["choices"],
        }
        if look.loss:
            found |= {"loss": look.loss, "gradients": walk["gradients"]}
        if values:
            found["values"] = {
                name: {"rows": attention.rows, "columns": attention.columns, "weights": weights.tolist()}
                for pattern in values
                for name, attention, weights in heads_of(look.attentions, pattern)
            }
        if align:
            found["alignment"] = alignment(aligning_look(look.attentions, align_by))
        if (searched := look.searched) is not None:
            best = searched.found
            found |= {"score": best.score, "log_prob": best.log_prob, "finished": best.finished}
            if searched.steps:
                beam = BeamSection(searched.steps, searched.won, searched.score).data()
                found |= {"beam": beam["steps"], "won": beam["won"], "score_in_words": beam["note"]}
    if costs is not None:
        found["ledger"] = LedgerSection(costs.ledger).data()["entries"]
        found["sizes"] = dict(zip("BST", costs.sizes, strict=True))
        found["cache_bytes"] = {
            "per_target_token": costs.cache.per_target_token,
            "per_source_token": costs.cache.per_source_token,
        }
        found["training_bytes"] = costs.ledger.training_bytes()
        if costs.step_flops is not None:
            found["step_flops"] = costs.step_flops
    return found
