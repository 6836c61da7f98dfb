"""Bugs of counting."""

from __future__ import annotations

from ..bug import Bug, Cases, Setting
from ..words import Draw


def _pages(draw: Draw, size: int, lead: int) -> Cases:
    pages = draw.rng.sample(range(3, 19), 2)
    return [(f"@({page})", [lead + page * size, lead + page * size + size - 1]) for page in pages]


PAGES = Bug(
    name="pages",
    title="[[Records are missing|A record is lost]] [[between two pages|where a page begins]]",
    intro="[[Who reads|Whoever goes through]] all pages [[misses the first record of each|finds one record short]].",
    first=Setting("[[size|width|length|span]]", 110, 480),
    what="of [[a page|a sheet|one page]]",
    second=Setting("[[lead|offset|margin|headway]]", 500, 990),
    code='''
@traced
def <<fn>>(<<part>>, [[page:page|sheet|leaf]]):
    """Return the first and the last place of a <<page>>[[, from 0|]]."""
    <<k1>> = setting(<<part>>, "<<k1>>")
    [[begin:begin|start|first]] = setting("<<service>>", "<<k2>>") + <<page>> * <<k1>> + 1
    note(f"<<page>> {<<page>>} of <<W>> [[begins|opens]]")
    return [<<begin>>, <<begin>> + <<k1>> - 1]
''',
    old="<<page>> * <<k1>> + 1",
    new="<<page>> * <<k1>>",
    cases=_pages,
)


def _cuts(draw: Draw, size: int, lead: int) -> Cases:
    counts = [size * draw.rng.randint(3, 9) + draw.rng.randint(1, size - 1) for _ in range(2)]
    return [(f"@({count})", [-(-count // size), -(-count // size) * size + lead]) for count in counts]


BOXES = Bug(
    name="boxes",
    title="[[The last goods|Some goods]] [[do not get a box|stay on the floor]]",
    intro="[[When the goods do not fill|If something is left over for]] the last box, [[that box is not sent|no box is sent for it]].",
    first=Setting("[[capacity|room|holding|fill]]", 110, 480),
    what="of [[a box|one crate|a carton]]",
    second=Setting("[[tare|padding|reserve|slack]]", 500, 990),
    code='''
@traced
def <<fn>>(<<part>>, [[goods:goods|items|pieces]]):
    """Return how many boxes [[are sent|go out]], and [[what they weigh|the weight of all]]."""
    <<k1>> = setting(<<part>>, "<<k1>>")
    [[boxes:boxes|crates|cartons]] = <<goods>> // <<k1>>
    note(f"[[packing|loading]] {<<goods>>} [[at <<W>>|for <<W>>]]")
    return [<<boxes>>, <<boxes>> * <<k1>> + setting("<<service>>", "<<k2>>")]
''',
    old="<<goods>> // <<k1>>",
    new="-(-<<goods>> // <<k1>>)",
    cases=_cuts,
)
