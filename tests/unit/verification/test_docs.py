from __future__ import annotations

import re
from pathlib import Path

from regard.verification import CHECKS
from regard.verification.findings import DOCS, check_name

PAGE = Path(__file__).parents[3] / DOCS


def test_every_check_is_explained_in_the_order_of_the_report() -> None:
    headings = re.findall(r"^### (\w+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert headings == [check_name(check) for check in CHECKS]
