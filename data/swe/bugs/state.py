"""Bugs of state: what is shared, kept, exhausted or missing."""

from __future__ import annotations

from ..bug import Bug, Cases
from ..words import Draw


def _collected(draw: Draw, price: int, fee: int) -> Cases:
    first, second = ([draw.rng.randint(2, 40) for _ in range(3)] for _ in range(2))
    sums = [sum(counts) * price + fee for counts in (first, second)]
    return [(f"[@({first}), @({second})]", sums), (f"[@({second}), @({second})]", [sums[1], sums[1]])]


MUTABLE = Bug(
    name="mutable",
    title="[[The second bill has the first one in it|Bills grow]]",
    intro="[[Each bill is for itself|A bill begins empty]], but [[the next one is higher|it keeps what was before]].",
    first="[[price|rate|tariff]]",
    what="of [[a piece|one thing]]",
    second="[[service|delivery|packing]]",
    code='''
@traced
def <<fn>>(<<part>>, [[ordered:ordered|wanted|bought]], [[bill:bill|list_of_all|basket]]=[]):
    """Return [[what was ordered costs|the sum of a bill]]."""
    <<bill>> += <<ordered>>
    note(f"[[bill of|to be paid by]] <<W>>: {len(<<ordered>>)}")
    return sum(<<bill>>) * setting(<<part>>, "<<k1>>") + setting("<<service>>", "<<k2>>")
''',
    old="<<bill>> += <<ordered>>",
    new="<<bill>> = <<bill>> + <<ordered>>",
    cases=_collected,
)


def _cached(draw: Draw, price: int, fee: int) -> Cases:
    pairs = [draw.rng.sample(range(3, 60), 2) for _ in range(2)]
    return [(f"[@({one}), @({two})]", [one * price + fee, two * price + fee]) for one, two in pairs]


CACHE = Bug(
    name="cache",
    title="[[Every answer is the first answer|The second question gets an old answer]]",
    intro="[[Answers are kept|What was worked out is kept]], but [[not for what they were asked|for too much]].",
    first="[[weight|mass|load]]",
    what="of [[a bar|one bar]]",
    second="[[frame|pallet|cage]]",
    code='''
[[KEPT:KEPT|KNOWN|STORE]] = {}


@traced
def <<fn>>(<<part>>, [[count:count|bars|number]]):
    """Return what bars weigh[[ together|]], [[worked out once|kept from then on]]."""
    [[key:key|name|mark]] = <<part>>
    if <<key>> not in <<KEPT>>:
        note(f"[[weighed at|put on]] <<W>>: {<<count>>}")
        <<KEPT>>[<<key>>] = <<count>> * setting(<<part>>, "<<k1>>") + setting("<<service>>", "<<k2>>")
    return <<KEPT>>[<<key>>]
''',
    old="<<key>> = <<part>>",
    new="<<key>> = (<<part>>, <<count>>)",
    cases=_cached,
)


def _fallback(draw: Draw, usual: int, fee: int) -> Cases:
    known = {word: draw.rng.randint(11, 99) for word in draw.words(3)}
    asked = draw.words(2)
    return [(f'@({known}, "{name}")', usual + fee) for name in asked]


FALLBACK = Bug(
    name="fallback",
    title="[[What is not listed is free|Unlisted goods cost nothing]]",
    intro=(
        "[[Goods that are not listed have the usual price|Whatever is not listed costs the usual]], "
        "[[and not nothing|never nothing]]."
    ),
    first="[[usual|standard|ordinary]]",
    what="price [[of unlisted goods|without a list]]",
    second="[[deposit|pledge|bond]]",
    code='''
@traced
def <<fn>>(<<part>>, [[prices:prices|listed|catalog]], [[wanted:wanted|goods|article]]):
    """Return [[the price of something|what something costs]], with its [[deposit|pledge]]."""
    <<k1>>, <<k2>> = setting(<<part>>, "<<k1>>"), setting("<<service>>", "<<k2>>")
    note(f"[[asked by|a question of]] <<W>>: {<<wanted>>}")
    return <<prices>>.get(<<wanted>>, 0) + <<k2>>
''',
    old=".get(<<wanted>>, 0)",
    new=".get(<<wanted>>, <<k1>>)",
    cases=_fallback,
)


def _aliased(draw: Draw, mark: int, other: int) -> Cases:
    def grid(row: int, column: int) -> list[list[int]]:
        return [[mark if (r, c) == (row, column) else other for c in range(3)] for r in range(3)]

    return [
        (f"@({row}, {column})", grid(row, column))
        for row, column in draw.rng.sample([(0, 2), (1, 1), (2, 0), (1, 0)], 2)
    ]


ALIASING = Bug(
    name="aliasing",
    title="[[One mark becomes three|A mark is in every row]]",
    intro="[[One field is marked|A single field has a mark]], but [[the whole column shows it|all rows do]].",
    first="[[mark|sign|flag]]",
    what="of [[the field|a marked field]]",
    second="[[empty|blank|ground]]",
    code='''
@traced
def <<fn>>(<<part>>, row, column):
    """Return [[a table with a mark|rows, of which a field is marked]]."""
    <<k1>>, <<k2>> = setting(<<part>>, "<<k1>>"), setting("<<service>>", "<<k2>>")
    [[table:table|rows|board]] = [[<<k2>>] * 3] * 3
    <<table>>[row][column] = <<k1>>
    note(f"[[marked by|a mark for]] <<W>>")
    return <<table>>
''',
    old="[[<<k2>>] * 3] * 3",
    new="[[<<k2>>] * 3 for _ in range(3)]",
    cases=_aliased,
)


def _twice(draw: Draw, price: int, fee: int) -> Cases:
    lists = [[draw.rng.randint(2, 40) for _ in range(3)] for _ in range(2)]
    return [(f"@({counts})", [sum(counts) * price, max(counts) + fee]) for counts in lists]


ITERATOR = Bug(
    name="iterator",
    title="[[The largest part is not seen|No largest part is shown]]",
    intro="[[After the sum is taken|Once the sum is there]], [[nothing is left to compare|there is no largest part]].",
    first="[[price|rate|cost]]",
    what="of [[a part|one part]]",
    second="[[extra|markup|bonus]]",
    code='''
@traced
def <<fn>>(<<part>>, [[parts:parts|pieces|lots]]):
    """Return the [[price of all|sum]], and the largest part [[with its surcharge|with what is added]]."""
    [[numbers:numbers|sizes|amounts]] = (int([[one:one|size|each]]) for <<one>> in <<parts>>)
    [[total:total|together|whole]] = sum(<<numbers>>) * setting(<<part>>, "<<k1>>")
    note(f"[[lots of|brought by]] <<W>>: {len(<<parts>>)}")
    return [<<total>>, max(<<numbers>>, default=0) + setting("<<service>>", "<<k2>>")]
''',
    old="(int(<<one>>) for <<one>> in <<parts>>)",
    new="[int(<<one>>) for <<one>> in <<parts>>]",
    cases=_twice,
)


def _late(draw: Draw, first: int, fee: int) -> Cases:
    return [
        (f"@({value})", [value * first + fee, value * (first + 1) + fee, value * (first + 2) + fee]) for value in (3, 7)
    ]


CLOSURE = Bug(
    name="closure",
    title="[[All steps do the same|Every step is the last step]]",
    intro=(
        "[[Three steps follow each other|There are three steps]], and each "
        "[[has a factor of its own|multiplies by one more]]."
    ),
    first="[[factor|gear|ratio]]",
    what="of the first [[step|of three steps]]",
    second="[[oil|grease|fuel]]",
    code='''
@traced
def <<fn>>(<<part>>, [[speed:speed|turns|drive]]):
    """Return what comes of each [[step|gear]]."""
    <<k1>>, <<k2>> = setting(<<part>>, "<<k1>>"), setting("<<service>>", "<<k2>>")
    [[steps:steps|gears|wheels]] = [lambda x: x * (<<k1>> + more) + <<k2>> for more in range(3)]
    note(f"[[driven by|a machine of]] <<W>>: {<<speed>>}")
    return [step(<<speed>>) for step in <<steps>>]
''',
    old="lambda x: x",
    new="lambda x, more=more: x",
    cases=_late,
)


def _zero(draw: Draw, usual: int, fee: int) -> Cases:
    wish = draw.rng.randint(3, 60)
    return [("[@(0), @(None)]", [fee, usual + fee]), (f"[@(None), @({wish}), @(0)]", [usual + fee, wish + fee, fee])]


ZERO = Bug(
    name="zero",
    title="[[Zero is taken for nothing|Who wants none gets some]]",
    intro="[[Who says zero wants none|Zero is a wish as well]]; only who says nothing [[gets the usual|has no wish]].",
    first="[[usual|ration|helping]]",
    what="of [[a guest|one guest]]",
    second="[[cover|seat|table_fee]]",
    code='''
@traced
def <<fn>>(<<part>>, [[wish:wish|amount|wanted]]):
    """Return what a guest [[pays|owes]]; [[without a wish|where nothing is said]], the usual."""
    <<k1>>, <<k2>> = setting(<<part>>, "<<k1>>"), setting("<<service>>", "<<k2>>")
    note(f"[[a guest of|invited by]] <<W>>: {<<wish>>}")
    return (<<wish>> or <<k1>>) + <<k2>>
''',
    old="(<<wish>> or <<k1>>)",
    new="(<<k1>> if <<wish>> is None else <<wish>>)",
    cases=_zero,
)


def _unique(draw: Draw, price: int, fee: int) -> Cases:
    lists = list[list[str]]()
    while len(lists) < 2:
        names = draw.words(4)
        if names != sorted(names):
            lists.append(names)
    return [
        (f"@({[*names, names[0]]})", [[name, price * place + fee] for place, name in enumerate(names, 1)])
        for names in lists
    ]


DUPLICATES = Bug(
    name="duplicates",
    title="[[The queue is out of order|Who came first is not first]]",
    intro=(
        "[[Whoever stands twice is served once|Nobody is served twice]], "
        "[[in the order in which they came|by their first place]]."
    ),
    first="[[wait|slot|turn_time]]",
    what="of [[a place|one place]]",
    second="[[opening|unlock|preparation]]",
    code='''
@traced
def <<fn>>(<<part>>, [[queue:queue|people|guests]]):
    """Return [[who is served when|names with their times]]."""
    <<k1>>, <<k2>> = setting(<<part>>, "<<k1>>"), setting("<<service>>", "<<k2>>")
    [[each:each|served|single]] = sorted(set(<<queue>>))
    note(f"[[queue before|crowd at]] <<W>>: {len(<<queue>>)}")
    return [[name, <<k1>> * place + <<k2>>] for place, name in enumerate(<<each>>, 1)]
''',
    old="sorted(set(<<queue>>))",
    new="list(dict.fromkeys(<<queue>>))",
    cases=_unique,
)


def _ties(draw: Draw, high: int, low: int) -> Cases:
    cases = list[tuple[str, object]]()
    for _ in range(2):
        rows = [[name, kind] for name, kind in zip(draw.words(4), draw.mixed(["a", "a", "b", "b"]), strict=True)]
        points = {"a": high, "b": low}
        ranked = sorted(rows, key=lambda row: points[row[1]], reverse=True)
        cases.append((f"@({rows})", [[name, points[kind]] for name, kind in ranked]))
    return cases


TIES = Bug(
    name="ties",
    title="[[Equal points change places|Ties are turned round]]",
    intro=(
        "[[The best come first|Most points come first]]; who has equal points "
        "[[keeps the order of arrival|stays in order]]."
    ),
    first="[[points|score|merit]]",
    what="of [[kind a|the kind a]]",
    second="[[prize|medal|honour]]",
    code='''
@traced
def <<fn>>(<<part>>, [[rows:rows|runners|entries]]):
    """Return names and points, [[the best first|most points first]]."""
    [[worth:worth|table|points_of]] = {"a": setting(<<part>>, "<<k1>>"), "b": setting("<<service>>", "<<k2>>")}
    note(f"[[race at|ranked by]] <<W>>: {len(<<rows>>)}")
    [[order:order|ranked|best]] = sorted(<<rows>>, key=lambda row: <<worth>>[row[1]])[::-1]
    return [[name, <<worth>>[kind]] for name, kind in <<order>>]
''',
    old=")[::-1]",
    new=", reverse=True)",
    cases=_ties,
)
