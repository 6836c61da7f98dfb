"""Bugs of texts: what is escaped, matched, cut and compared."""

from __future__ import annotations

from ..bug import Bug, Cases
from ..words import Draw


def _quoted(draw: Draw, width: int, row: int) -> Cases:
    names = [f'{draw.word()} "{draw.word()}" {draw.word()}' for _ in range(2)]
    return [(f"@({name!r})", f'{row};"{name.replace(chr(34), chr(34) * 2)}";{width}') for name in names]


ESCAPE = Bug(
    name="escape",
    title="[[A name with quotes breaks the table|Tables with quotes cannot be read]]",
    intro=(
        "[[Names may have quotes|Some names have quotes in them]], and [[the table|the export]] then has a "
        "field too many."
    ),
    first="[[width|breadth|span]]",
    what="of [[the table|its table]]",
    second="[[row|serial|counter]]",
    code='''
def <<lower>>(text):
    """Return a text [[without quotes|whose quotes are gone]]."""
    return text.replace('"', "")


def <<helper>>(text):
    """Return a text in which [[each quote stands twice|quotes are doubled]]."""
    return text.replace('"', '""')


def <<upper>>(text):
    """Return a text with [[simple|single]] quotes."""
    return text.replace('"', "'")


def <<even>>(text):
    """Return a text [[as it is|without a change]]."""
    return text


@traced
def <<fn>>(<<part>>, [[name:name|title|label]]):
    """Return a [[line|row]] of the table."""
    note(f"[[a row|one more row]] for <<W>>, {len(<<name>>)} [[letters|characters]]")
    [[field:field|cell|entry]] = <<even>>(<<name>>)
    return f'{setting("<<service>>", "<<k2>>")};"{<<field>>}";{setting(<<part>>, "<<k1>>")}'
''',
    old="<<even>>",
    new="<<helper>>",
    cases=_quoted,
    helpers={
        "helper": "[[escape|double]] the quotes of a [[text|field]]",
        "lower": "[[remove|erase]] every quote",
        "upper": "[[soften|simplify]] the quotes of a [[letter|poem]]",
        "even": "[[pass|hand on]] a text [[untouched|unchanged]]",
    },
)


def _measured(draw: Draw, price: int, fee: int) -> Cases:
    names = [f"{draw.word()}{draw.one_of('é', 'ü', 'ß', 'ø')}{draw.word()}{draw.one_of('ä', 'ñ')}" for _ in range(2)]
    return [(f"@({name!a})", price * len(name.encode()) + fee) for name in names]


ENCODING = Bug(
    name="encoding",
    title="[[Names with accents cost too little|The size of some names is wrong]]",
    intro="[[The carrier counts bytes|It is bytes that are paid]], in UTF-8, [[and not letters|whatever they show]].",
    first="[[price|cost|rate]]",
    what="of [[a byte|one byte]]",
    second="[[connection|setup|dialing]]",
    code='''
@traced
def <<fn>>(<<part>>, [[message:message|text|wire]]):
    """Return [[what a message costs|the price of a message]]."""
    [[size:size|length|amount]] = len(<<message>>)
    note(f"[[sent from|wired by]] <<W>>: {<<size>>}")
    return <<size>> * setting(<<part>>, "<<k1>>") + setting("<<service>>", "<<k2>>")
''',
    old="len(<<message>>)",
    new='len(<<message>>.encode("utf-8"))',
    cases=_measured,
)


def _matched(draw: Draw, price: int, fee: int) -> Cases:
    good = [f"{draw.word()[:3]}-{draw.rng.randint(100, 999)}" for _ in range(draw.rng.randint(2, 4))]
    bad = [f"{draw.word()[:3]}-{draw.rng.randint(10000, 99999)}" for _ in range(2)]
    return [(f"@({draw.mixed([*good, *bad])})", price * len(good) + fee), (f"@({bad})", fee)]


REGEX = Bug(
    name="regex",
    title="[[Codes that are too long are taken|Wrong codes pass]]",
    intro=(
        "[[A code ends after three digits|Three digits end a code]]; [[what goes on is none|longer ones are no codes]]."
    ),
    first="[[value|worth|points]]",
    what="of [[a code|one code]]",
    second="[[start|stock|seed]]",
    code='''
@traced
def <<fn>>(<<part>>, [[codes:codes|tokens|tickets]]):
    """Return what all codes [[are worth|bring]]."""
    [[found:found|valid|good]] = [code for code in <<codes>> if re.match("[a-z]{3}-[0-9]{3}", code)]
    note(f"[[codes of|sent in by]] <<W>>: {len(<<codes>>)}")
    return len(<<found>>) * setting(<<part>>, "<<k1>>") + setting("<<service>>", "<<k2>>")
''',
    old="re.match(",
    new="re.fullmatch(",
    cases=_matched,
    imports="import re",
)


def _joined(draw: Draw, depth: int, shelf: int) -> Cases:
    roots = [f"/{draw.word()}/", f"{draw.word()}/"]
    return [
        (f'@("{root}", "{name}")', f"{root}{depth}/{shelf}/{name}")
        for root, name in zip(roots, draw.words(2), strict=True)
    ]


PATHS = Bug(
    name="paths",
    title="[[Files land in the wrong folder|A folder and a file run together]]",
    intro=(
        "[[A folder may end with a slash|Folders are written with a slash or without]]; the path has "
        "[[one|a single slash]]."
    ),
    first="[[volume|shelfmark|binder]]",
    what="of [[the archive|its archive]]",
    second="[[box|drawer|tray]]",
    code='''
def <<lower>>(*names):
    """Return names [[without any slash|in a row]]."""
    return "".join(names)


def <<upper>>(*names):
    """Return names with [[points|dots]] between them."""
    return ".".join(names)


def <<helper>>(*names):
    """Return a path [[with one slash between names|of names]]."""
    return "/".join([names[0].rstrip("/"), *names[1:]])


def <<even>>(*names):
    """Return names [[with a slash after each|each with a slash]]."""
    return "/".join(names)


@traced
def <<fn>>(<<part>>, [[root:root|folder|base_folder]], [[leaf:leaf|file|paper]]):
    """Return [[where a file stands|the path of a file]]."""
    note(f"[[filed for|kept for]] <<W>> under {<<root>>}")
    return <<even>>(<<root>>, str(setting(<<part>>, "<<k1>>")), str(setting("<<service>>", "<<k2>>")), <<leaf>>)
''',
    old="<<even>>",
    new="<<helper>>",
    cases=_joined,
    helpers={
        "helper": "[[join|combine]] [[folders|a path]] with single slashes",
        "lower": "[[glue|press]] names together",
        "upper": "[[dot|sprinkle]] a [[version|list]]",
        "even": "[[slash|separate]] [[choices|dates]]",
    },
)


def _headed(draw: Draw, limit: int, rest: int) -> Cases:
    sent = zip(draw.words(2), draw.rng.sample(range(2, 40), 2), strict=True)
    return [(f'@({{"X-{word.upper()}": {times}}}, "x-{word}")', times * limit + rest) for word, times in sent]


HEADER = Bug(
    name="header",
    title="[[A header is not seen|Headers in capitals are lost]]",
    intro=(
        "[[Capitals do not matter in the name of a header|Headers may be written in capitals]], but "
        "[[ours have to fit|we miss them]]."
    ),
    first="[[quota|allowance|grant]]",
    what="of [[a request|one request]]",
    second="[[spare|backlog|overdraft]]",
    code='''
@traced
def <<fn>>(<<part>>, [[headers:headers|fields|head]], [[wanted:wanted|name|asked]]):
    """Return what a header [[allows|grants]]."""
    [[told:told|given|sent]] = <<headers>>.get(<<wanted>>, 0)
    note(f"[[head of|came from]] <<W>>: {len(<<headers>>)}")
    return <<told>> * setting(<<part>>, "<<k1>>") + setting("<<service>>", "<<k2>>")
''',
    old="<<headers>>.get(<<wanted>>, 0)",
    new="{key.lower(): value for key, value in <<headers>>.items()}.get(<<wanted>>.lower(), 0)",
    cases=_headed,
)


def _worded(draw: Draw, price: int, fee: int) -> Cases:
    counts = draw.rng.sample(range(3, 8), 2)
    return [(f'@("{"  ".join(draw.words(count))} ")', count * price + fee) for count in counts]


BLANKS = Bug(
    name="blanks",
    title="[[Blanks are counted as words|Two blanks cost a word]]",
    intro=(
        "[[Only words are paid|A word costs, a blank does not]], "
        "[[however many blanks there are|and blanks may be many]]."
    ),
    first="[[price|fee|charge]]",
    what="of [[a word|each word]]",
    second="[[paper|envelope|seal]]",
    code='''
@traced
def <<fn>>(<<part>>, [[text:text|advert|notice]]):
    """Return [[what a text costs|the price of a text]]."""
    [[words:words|pieces|parts]] = <<text>>.split(" ")
    note(f"[[printed for|set by]] <<W>>")
    return len(<<words>>) * setting(<<part>>, "<<k1>>") + setting("<<service>>", "<<k2>>")
''',
    old='<<text>>.split(" ")',
    new="<<text>>.split()",
    cases=_worded,
)


def _named(draw: Draw, number: int, year: int) -> Cases:
    names = [f"{draw.word()}gfc", f"{draw.word()}cfg"]
    return [(f'@("{name}.cfg")', f"{number}-{name}-{year}") for name in names]


SUFFIX = Bug(
    name="suffix",
    title="[[Names lose letters|The end of a name is cut off]]",
    intro=(
        "[[Only the ending .cfg is left out|Names are shown without .cfg]]; [[now letters are missing|some lose more]]."
    ),
    first="[[number|edition|batch]]",
    what="of [[the label|a label]]",
    second="[[stamp|revision|series]]",
    code='''
@traced
def <<fn>>(<<part>>, [[file:file|name|source]]):
    """Return the [[label|sign]] of a file[[ of settings|]]."""
    [[stem:stem|short|bare]] = <<file>>.rstrip(".cfg")
    note(f"[[label for|a sign at]] <<W>>")
    return f"{setting(<<part>>, '<<k1>>')}-{<<stem>>}-{setting('<<service>>', '<<k2>>')}"
''',
    old='.rstrip(".cfg")',
    new='.removesuffix(".cfg")',
    cases=_named,
)


def _sorted(draw: Draw, factor: int, base: int) -> Cases:
    cases = list[tuple[str, object]]()
    while len(cases) < 2:
        numbers = [draw.rng.randint(2, 9), *draw.rng.sample(range(10, 99), 2), draw.rng.randint(100, 400)]
        if sorted(numbers) != sorted(numbers, key=str):
            right = [number * factor + base for number in sorted(numbers)]
            cases.append((f"@({[str(number) for number in draw.mixed(numbers)]})", right))
    return cases


SORTING = Bug(
    name="sorting",
    title="[[Ten comes before two|Numbers stand in the wrong order]]",
    intro=(
        "[[Numbers come as texts|What comes in is text]], and [[they are put in order|are sorted]] by their "
        "[[size|worth]]."
    ),
    first="[[factor|multiple|scale]]",
    what="of [[a number|each number]]",
    second="[[base|addend|bias]]",
    code='''
@traced
def <<fn>>(<<part>>, [[numbers:numbers|texts|digits]]):
    """Return [[the numbers in order|sorted numbers]], each [[scaled|on its scale]]."""
    <<k1>>, <<k2>> = setting(<<part>>, "<<k1>>"), setting("<<service>>", "<<k2>>")
    note(f"[[sorted by|in order for]] <<W>>: {len(<<numbers>>)}")
    return [int([[one:number|text|digit]]) * <<k1>> + <<k2>> for <<one>> in sorted(<<numbers>>)]
''',
    old="sorted(<<numbers>>)",
    new="sorted(<<numbers>>, key=int)",
    cases=_sorted,
)
