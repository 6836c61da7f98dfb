"""Bugs of counting."""

from __future__ import annotations

from ..bug import Bug, Cases
from ..words import Draw


def _pages(draw: Draw, size: int, lead: int) -> Cases:
    pages = draw.rng.sample(range(3, 19), 2)
    return [(f"@({page})", [lead + page * size, lead + page * size + size - 1]) for page in pages]


PAGES = Bug(
    name="pages",
    title="[[Records are missing|A record is lost]] [[between two pages|where a page begins]]",
    intro="[[Who reads|Whoever goes through]] all pages [[misses the first record of each|finds one record short]].",
    first="[[size|width|length|span]]",
    what="of [[a page|a sheet|one page]]",
    second="[[lead|offset|margin|headway]]",
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
    intro=(
        "[[When the goods do not fill|If something is left over for]] the last box, "
        "[[that box is not sent|no box is sent for it]]."
    ),
    first="[[capacity|room|holding|fill]]",
    what="of [[a box|one crate|a carton]]",
    second="[[tare|padding|reserve|slack]]",
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


def _days(draw: Draw, rate: int, fee: int) -> Cases:
    first, last = draw.rng.randint(1, 9), draw.rng.randint(12, 28)
    year, month = draw.rng.randint(2031, 2069), draw.rng.randint(1, 12)
    day = f'"{year}-{month:02}-{first:02}"'
    days = last - first + 1
    return [(f'@({day}, "{year}-{month:02}-{last:02}")', rate * days + fee), (f"@({day}, {day})", rate + fee)]


DAYS = Bug(
    name="days",
    title="[[The last day is not charged|A stay of one day costs too little]]",
    intro="[[Stays|Rentals]] are charged from the first day to the last, [[and both count|both included]].",
    first="[[rate|rent|charge]]",
    what="of [[a day|one day|each day]]",
    second="[[fee|cleaning|deposit|surcharge]]",
    code='''
@traced
def <<fn>>(<<part>>, [[first:first|arrival|begin]], [[last:last|departure|end]]):
    """Return [[what a stay costs|the price of a stay]], [[from day to day|both days counted]]."""
    <<k1>>, <<k2>> = setting(<<part>>, "<<k1>>"), setting("<<service>>", "<<k2>>")
    [[days:days|length|stay]] = (date.fromisoformat(<<last>>) - date.fromisoformat(<<first>>)).days
    note(f"[[a stay at|somebody books]] <<W>>, {<<first>>}[[ on|]]")
    return <<days>> * <<k1>> + <<k2>>
''',
    old="<<days>> * <<k1>>",
    new="(<<days>> + 1) * <<k1>>",
    cases=_days,
    imports="from datetime import date",
)


def _retries(draw: Draw, pause: int, start: int) -> Cases:
    tries = draw.rng.sample(range(3, 12), 2)
    return [(f"@({count})", start + pause * count * (count + 1) // 2) for count in tries]


RETRIES = Bug(
    name="retries",
    title="[[One try too few|The last try is left out]]",
    intro=(
        "[[A call|A delivery]] that fails is tried again, and [[each pause is longer than the one before|pauses grow]]."
    ),
    first="[[pause|delay|backoff]]",
    what="[[before the second try|at first|to begin with]]",
    second="[[start|warmup|handshake]]",
    code='''
@traced
def <<fn>>(<<part>>, [[tries:tries|attempts|rounds]]):
    """Return how long all [[tries|attempts]] wait [[together|in all]]."""
    <<k1>> = setting(<<part>>, "<<k1>>")
    [[total:total|waited|spent]] = setting("<<service>>", "<<k2>>")
    for [[number:number|turn|count]] in range(1, <<tries>>):
        <<total>> += <<number>> * <<k1>>
        note(f"[[try|attempt]] {<<number>>} at <<W>>")
    return <<total>>
''',
    old="range(1, <<tries>>)",
    new="range(1, <<tries>> + 1)",
    cases=_retries,
)


def _rest(draw: Draw, price: int, fee: int) -> Cases:
    lists = [[draw.rng.randint(2, 40) for _ in range(draw.rng.randint(3, 6))] for _ in range(2)]
    return [(f"@({counts})", sum(counts) * price + fee) for counts in lists]


LAST = Bug(
    name="last",
    title="[[The last line of an order is free|An order's last line is forgotten]]",
    intro="[[Orders|Bills]] come out too low, [[by what stands last|and it is the last line that is missing]].",
    first="[[price|cost|tariff]]",
    what="of [[a piece|one piece|an item]]",
    second="[[postage|carriage|freight]]",
    code='''
@traced
def <<fn>>(<<part>>, [[counts:counts|lines|amounts]]):
    """Return [[the sum of an order|what an order costs]]."""
    <<k1>>, <<k2>> = setting(<<part>>, "<<k1>>"), setting("<<service>>", "<<k2>>")
    [[sum:pieces|together|whole]] = 0
    for [[one:one|count|line]] in <<counts>>[:-1]:
        note(f"[[<<W>> adds|<<W>> writes]] {<<one>>}")
        <<sum>> += <<one>>
    return <<sum>> * <<k1>> + <<k2>>
''',
    old="<<counts>>[:-1]",
    new="<<counts>>",
    cases=_rest,
)


def _ring(draw: Draw, step: int, base: int) -> Cases:
    names = draw.words(draw.rng.randint(5, 7))
    places = draw.rng.sample(range(2, 9), 2)
    return [(f"@({names}, {place})", [names[(place + step) % len(names)], step + base + place]) for place in places]


RING = Bug(
    name="ring",
    title="[[The rota|The duty list]] [[ends too early|has no next name]]",
    intro="After the last name [[the first comes again|it begins anew]], but [[the list breaks off|nobody is called]].",
    first="[[step|stride|jump]]",
    what="of [[the rota|the round]]",
    second="[[base|number|origin]]",
    code='''
@traced
def <<fn>>(<<part>>, [[names:names|crew|people]], [[place:place|turn|week]]):
    """Return [[who is on duty|whose turn it is]], and the [[number|ticket]] of that turn."""
    <<k1>>, <<k2>> = setting(<<part>>, "<<k1>>"), setting("<<service>>", "<<k2>>")
    note(f"[[turn|week]] {<<place>>} [[at|of]] <<W>>")
    [[who:who|chosen|called]] = <<names>>[<<place>> + <<k1>>]
    return [<<who>>, <<k1>> + <<k2>> + <<place>>]
''',
    old="[<<place>> + <<k1>>]",
    new="[(<<place>> + <<k1>>) % len(<<names>>)]",
    cases=_ring,
)


def _threshold(draw: Draw, least: int, gift: int) -> Cases:
    return [(f"[@({least}), @({least - 1})]", [gift, 0])]


THRESHOLD = Bug(
    name="threshold",
    title="[[Just enough is not enough|The bonus comes one piece too late]]",
    intro=(
        "Who [[orders exactly the least amount|reaches the limit exactly]] [[has a right to|gets]] the "
        "bonus[[ as well|, too]]."
    ),
    first="[[minimum|limit|threshold]]",
    what="for [[a bonus|the bonus]]",
    second="[[bonus|reward|gift]]",
    code='''
@traced
def <<fn>>(<<part>>, [[count:count|pieces|ordered]]):
    """Return the [[bonus|present]] for an order[[ of so many pieces|]]."""
    <<k1>> = setting(<<part>>, "<<k1>>")
    note(f"[[bonus for|order of]] <<W>>: {<<count>>}")
    if <<count>> > <<k1>>:
        return setting("<<service>>", "<<k2>>")
    return 0
''',
    old="<<count>> > <<k1>>",
    new="<<count>> >= <<k1>>",
    cases=_threshold,
)
