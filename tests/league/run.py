"""Play the league and write its table: python tests/league/run.py [file.md]"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import torch
from correct import CORRECT

from league import FAULTS, Result, try_correct, try_fault


def table(results: list[Result], alarms: dict[str, tuple[str, ...]], seconds: float) -> str:
    named = sum(bool(result.named) for result in results)
    first = sum(bool(result.failed) and result.failed[0] in result.fault.named_by for result in results)
    hosts = {result.fault.host for result in results}
    silent = sum(not failed for failed in alarms.values())
    lines = [
        "# The fault league",
        "",
        f"{named} of {len(results)} planted faults in {len(hosts)} hosts are found and named "
        f"({100 * named / len(results):.1f} %), {first} of them by the first failure of the report. "
        f"{len(alarms) - silent} false alarms on {len(alarms)} correct models.",
        "",
        f"Played with torch {torch.__version__}, one thread, {seconds:.0f} s. "
        "A fault counts as named when one of the checks that are listed with it fails.",
        "",
        "| host | fault | named by | its cause, in the report's words | also failed |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        others = ", ".join(name for name in result.failed if name != result.named)
        named_by = result.named or f"**missed** ({' or '.join(result.fault.named_by)})"
        lines.append(f"| {result.fault.host} | {result.fault.name} | {named_by} | {result.cause} | {others} |")
    lines += ["", "| correct model | false alarms |", "|---|---|"]
    lines += [f"| {name} | {', '.join(failed) or 'none'} |" for name, failed in alarms.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    began = time.perf_counter()
    alarms = {}
    for name in CORRECT:
        report = try_correct(name)
        alarms[name] = tuple(finding.name for finding in report.failed)
        print(f"{'alarm' if report.failed else 'right':6} {name} {' '.join(alarms[name])}", file=sys.stderr)
    results = []
    for fault in FAULTS:
        results.append(try_fault(fault))
        print(f"{'named' if results[-1].named else 'MISSED':6} {fault.host}: {fault.name}", file=sys.stderr)
    text = table(results, alarms, time.perf_counter() - began)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="utf-8", newline="\n")
    print(text, end="")
    missed = [result for result in results if not result.named]
    return int(bool(missed or any(alarms.values())))


if __name__ == "__main__":
    sys.exit(main())
