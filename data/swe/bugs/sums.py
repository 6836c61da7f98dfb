"""Bugs of sums: rounding, units, signs and order."""

from __future__ import annotations

from ..bug import Bug, Cases
from ..words import Draw


def _shares(draw: Draw, rate: int, fee: int) -> Cases:
    def rest(count: int) -> int:
        return count * rate % 8

    half = next(count for count in range(3, 99) if rest(count) == 4 and count * rate // 8 % 2 == 0)
    less = next(count for count in range(draw.rng.randint(3, 40), 99) if 0 < rest(count) < 4)
    return [(f"@({count})", (2 * count * rate + 8) // 16 + fee) for count in (half, less)]


def _splits(rate: int) -> bool:
    return rate % 2 == 1


ROUNDING = Bug(
    name="rounding",
    title="[[Shares are a cent too low|A cent is lost now and then]]",
    intro=(
        "[[Eight parties share a cost|A cost is shared by eight]], and [[half a cent goes up|halves are rounded up]]."
    ),
    first="[[rate|cost|dues]]",
    fits=_splits,
    what="of [[a unit|one unit]]",
    second="[[fee|base|toll]]",
    code='''
def <<lower>>(number, parts):
    """Return a share [[without what is left|cut off]]."""
    return number // parts


def <<even>>(number, parts):
    """Return a share, [[a half to the even side|halves to even]]."""
    return round(number / parts)


def <<helper>>(number, parts):
    """Return a share, [[a half to the next cent|halves upwards]]."""
    return (2 * number + parts) // (2 * parts)


def <<upper>>(number, parts):
    """Return a share [[and never too little|that is enough]]."""
    return -(-number // parts)


@traced
def <<fn>>(<<part>>, [[units:units|used|taken]]):
    """Return what [[each party|one of eight]] pays."""
    <<k1>> = setting(<<part>>, "<<k1>>")
    note(f"[[shares of|<<V>> divides]] {<<units>>} [[at|near]] <<W>>")
    return <<even>>(<<units>> * <<k1>>, 8) + setting("<<service>>", "<<k2>>")
''',
    old="<<even>>",
    new="<<helper>>",
    cases=_shares,
    helpers={
        "helper": "[[round|bring]] halves [[up|upwards]]",
        "lower": "[[cut off|drop]] the [[rest|remainder]]",
        "upper": "[[exceed|cover]] the whole [[cost|sum]]",
        "even": "[[balance|level]] many [[sums|rows]]",
    },
)


def _local(draw: Draw, shift: int, opening: int) -> Cases:
    return [(f"@({minute})", (minute + shift) % 1440 + opening) for minute in draw.rng.sample(range(1, 1400), 2)]


TIMEZONE = Bug(
    name="timezone",
    title="[[The clock is wrong abroad|Local times are off]]",
    intro="[[East of here|In the east]] it is later, but [[the plan says|we show]] an earlier [[hour|time]].",
    first="[[shift|offset|difference]]",
    what="in minutes [[to the east|of the clock]]",
    second="[[opening|notice|leadtime]]",
    code='''
@traced
def <<fn>>(<<part>>, [[minute:minute|moment|clock]]):
    """Return the [[local minute|minute of the day]] at which [[it is ready|the door opens]]."""
    <<k1>>, <<k2>> = setting(<<part>>, "<<k1>>"), setting("<<service>>", "<<k2>>")
    [[local:local|there|shown]] = (<<minute>> - <<k1>>) % 1440
    note(f"minute {<<minute>>} [[at|seen from]] <<W>>")
    return <<local>> + <<k2>>
''',
    old="<<minute>> - <<k1>>",
    new="<<minute>> + <<k1>>",
    cases=_local,
)


def _seconds(draw: Draw, flow: int, dead: int) -> Cases:
    return [(f"@({hours})", hours * 3600 * flow + dead) for hours in draw.rng.sample(range(2, 30), 2)]


UNITS = Bug(
    name="units",
    title="[[The tank is nearly empty|Far too little water is booked]]",
    intro="[[The flow is given for a second|It flows every second]], the [[opening|time]] in hours.",
    first="[[flow|current|output]]",
    what="in [[a second|each second]]",
    second="[[residue|sediment|remains]]",
    code='''
@traced
def <<fn>>(<<part>>, [[hours:hours|open_for|duration]]):
    """Return how much [[flows|runs]] in so many hours[[, with what was there|]]."""
    <<k1>> = setting(<<part>>, "<<k1>>")
    [[amount:amount|volume|mass]] = <<hours>> * 60 * <<k1>>
    note(f"[[the tap|the gate]] <<W>> is open for {<<hours>>}")
    return <<amount>> + setting("<<service>>", "<<k2>>")
''',
    old="<<hours>> * 60 ",
    new="<<hours>> * 3600 ",
    cases=_seconds,
)


def _blend(draw: Draw, first: int, second: int) -> Cases:
    return [(f"@({count})", first * count + second) for count in draw.rng.sample(range(3, 40), 2)]


SWAPPED = Bug(
    name="swapped",
    title="[[Freight is wrong|Two prices are mixed up]]",
    intro="[[Each parcel has a price|There is a price a parcel]], and the [[trip|journey]] [[has one|costs once]].",
    first="[[parcel|stamp|handling]]",
    what="[[a piece|of one]]",
    second="[[trip|route|tour]]",
    code='''
def <<lower>>([[each:each|single]], [[once:once|fixed]], [[number:number|many]]):
    """Return a price for each of many and [[a price for all|one more]]."""
    return <<each>> * <<number>> + <<once>>


@traced
def <<fn>>(<<part>>, [[parcels:parcels|bags|trunks]]):
    """Return [[what a delivery costs|the cost of a delivery]]."""
    note(f"{<<parcels>>} [[go to|are for]] <<W>>")
    <<k1>>, <<k2>> = setting(<<part>>, "<<k1>>"), setting("<<service>>", "<<k2>>")
    return <<lower>>(<<k2>>, <<k1>>, <<parcels>>)
''',
    old="(<<k2>>, <<k1>>, <<parcels>>)",
    new="(<<k1>>, <<k2>>, <<parcels>>)",
    cases=_blend,
)


def _discount(draw: Draw, permille: int, fee: int) -> Cases:
    return [(f"@({amount * 1000})", amount * permille + fee) for amount in draw.rng.sample(range(11, 90), 2)]


DISCOUNT = Bug(
    name="discount",
    title="[[The fee is reduced too|A reduction goes too far]]",
    intro="[[Only the goods are reduced|A reduction is for goods]]; the fee [[is added afterwards|comes on top]].",
    first="[[permille|portion|fraction]]",
    what="of the price [[that is left|to pay]]",
    second="[[fee|duty|toll]]",
    code='''
@traced
def <<fn>>(<<part>>, [[price:price|amount|worth]]):
    """Return what is [[left to pay|paid in the end]]."""
    <<k1>>, <<k2>> = setting(<<part>>, "<<k1>>"), setting("<<service>>", "<<k2>>")
    note(f"[[reduced|cheaper]] for <<W>>: {<<price>>}")
    return (<<price>> + <<k2>>) * <<k1>> // 1000
''',
    old="(<<price>> + <<k2>>) * <<k1>> // 1000",
    new="<<price>> * <<k1>> // 1000 + <<k2>>",
    cases=_discount,
)


def _uneven(count: int) -> bool:
    total = 0.0
    for _ in range(count):
        total += 0.1
    return total != count / 10


def _tenths(draw: Draw, reward: int, fee: int) -> Cases:
    counts = draw.rng.sample([count for count in range(3, 60) if _uneven(count)], 2)
    return [(f"@({count})", reward * count + fee) for count in counts]


FLOATS = Bug(
    name="floats",
    title="[[A full tank is not full|Ten tenths are no whole]]",
    intro="[[Tenths are added|It is filled by tenths]], and the end is [[missed|never seen]].",
    first="[[reward|premium|payment]]",
    what="for [[a tenth|one tenth]]",
    second="[[closing|sealing|lid]]",
    code='''
@traced
def <<fn>>(<<part>>, [[steps:steps|tenths|parts]]):
    """Return [[what is due|the pay]] once all tenths are in."""
    <<k1>>, <<k2>> = setting(<<part>>, "<<k1>>"), setting("<<service>>", "<<k2>>")
    [[level:level|filled|sum_of_all]] = 0.0
    for _ in range(<<steps>>):
        <<level>> += 0.1
    note(f"[[filled at|level of]] <<W>> after {<<steps>>}")
    if <<level>> == <<steps>> / 10:
        return <<steps>> * <<k1>> + <<k2>>
    return <<k2>> - <<k1>>
''',
    old="<<level>> == <<steps>> / 10",
    new="abs(<<level>> - <<steps>> / 10) < 0.000001",
    cases=_tenths,
)


def _clamped(draw: Draw, low: int, high: int) -> Cases:
    return [(f"[@({low - 7}), @({high + 9})]", [low, high]), (f"[@({high + 70}), @({low + 1})]", [high, low + 1])]


CLAMP = Bug(
    name="clamp",
    title="[[Limits do not hold|Values leave their range]]",
    intro=(
        "[[A value below the least becomes the least|Low values are lifted]], [[a large one is cut|high ones are cut]]."
    ),
    first="[[floor|bottom|lowest]]",
    what="of the [[range|scale]]",
    second="[[roof|top|ceiling]]",
    code='''
@traced
def <<fn>>(<<part>>, [[value:value|wish|reading]]):
    """Return a value [[within its limits|that is allowed]]."""
    <<k1>>, <<k2>> = setting(<<part>>, "<<k1>>"), setting("<<service>>", "<<k2>>")
    note(f"[[<<W>> wishes|read at <<W>>]] {<<value>>}")
    return min(<<k1>>, max(<<k2>>, <<value>>))
''',
    old="min(<<k1>>, max(<<k2>>, <<value>>))",
    new="max(<<k1>>, min(<<k2>>, <<value>>))",
    cases=_clamped,
)


def _years(draw: Draw, rent: int, fee: int) -> Cases:
    return [(f"@({year})", 365 * rent + fee) for year in draw.rng.sample((1900, 2100, 2200, 2300, 2500), 2)]


LEAP = Bug(
    name="leap",
    title="[[The year has a day too many|One year is too dear]]",
    intro="[[Not every fourth year|No full century but each fourth]] has a [[day more|29 February]].",
    first="[[rent|wage|upkeep]]",
    what="of [[a day|every day]]",
    second="[[tax|insurance|subscription]]",
    code='''
@traced
def <<fn>>(<<part>>, year):
    """Return what [[a year costs|is paid in a year]]."""
    <<k1>>, <<k2>> = setting(<<part>>, "<<k1>>"), setting("<<service>>", "<<k2>>")
    [[days:days|length|nights]] = 366 if year % 4 == 0 else 365
    note(f"[[the year of|budget of]] <<W>>: {year}")
    return <<days>> * <<k1>> + <<k2>>
''',
    old="year % 4 == 0",
    new="year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)",
    cases=_years,
)
