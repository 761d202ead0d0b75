"""The register of real chips' bits on the command line."""

from __future__ import annotations

from dataclasses import asdict

from trn3.cli.consoles import output, print_json, table


def show_register(*, as_json: bool) -> bool:
    """Print every claim and what trn3 computes; return whether all verdicts are those stated."""
    from trn3.validation import silicon

    register = silicon.register()
    computed = [silicon.compute(claim) for claim in register.claims]
    pairs = list(zip(register.claims, computed, strict=True))
    if as_json:
        document = {
            "silicon": [{**asdict(claim), "computed": found} for claim, found in pairs],
            "compiler": [asdict(report) for report in register.compiler],
        }
        print_json(document, versioned=True)
        return all(claim.verdict == found for claim, found in pairs)
    console = output()
    rows = table("claim", "chips", "verdict", "computed", "shown by")
    for claim, found in pairs:
        mark = found if found == claim.verdict else f"{found} (stated otherwise)"
        rows.add_row(claim.id, ", ".join(claim.chips), claim.verdict, mark, claim.test)
    console.print(rows)
    for claim in register.claims:
        against = "" if claim.against is None else f" Against it: {claim.against}"
        console.print(f"{claim.id}: {claim.claim}. {claim.source}.{against}", soft_wrap=True)
    for report in register.compiler:
        chips = ", ".join(report.chips)
        console.print(
            f"compiler, no verdict ({chips}): {report.claim}. {report.source}.", soft_wrap=True
        )
    return all(claim.verdict == found for claim, found in pairs)
