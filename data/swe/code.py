"""The code around a bug: the module that calls it, functions beside it, and the tests."""

from __future__ import annotations

from dataclasses import dataclass

from .bug import Bug, Cases
from .words import Draw

_CORE = '''
"""[[What <<pkg>> works out|The rules of <<pkg>>|Everything that <<pkg>> reckons|The inner work of <<pkg>>]]."""

<<imports>>from .<<base>> import note, setting, traced
'''


@dataclass(frozen=True, slots=True)
class _Extra:
    """A function without a bug, and what it returns."""

    code: str
    calls: str
    returns: str


_EXTRAS = (
    _Extra(
        '''
def <<extra>>(texts):
    """[[Join|Put together]] texts [[for a label|for the door]]."""
    note(f"[[label|sign|plate]] <<W>> has {len(texts)} [[texts|parts|pieces]]")
    return "-".join(texts)
''',
        '["<<pa>>", "<<pb>>"]',
        "{pa}-{pb}",
    ),
    _Extra(
        '''
def <<extra>>(text):
    """[[Turn|Bring]] a name [[round|to the other end]]."""
    note("[[turning|reversing]] at <<W>>[[, gently|, once| again]]")
    return text[::-1]
''',
        '"<<pa>>"',
        "{pa_reversed}",
    ),
    _Extra(
        '''
def <<extra>>(text, [[count:count|times|repeats]]):
    """[[Repeat|Say again]] a name[[, a few times|, for the deaf|]]."""
    note("[[echo|repeat]] near <<W>>")
    return text * <<count>>
''',
        '"<<pa>>", 2',
        "{pa}{pa}",
    ),
    _Extra(
        '''
def <<extra>>([[name:name|title|label]]):
    """[[Write|Print]] a name in [[capitals|large letters]]."""
    note("[[capitals|large letters]] for <<W>>")
    return <<name>>.upper()
''',
        '"<<pa>>"',
        "{pa_upper}",
    ),
)
_NEARS = (
    '''
"""[[The counter of|The front desk of|Who talks to]] <<pkg>>."""

from . import <<base>>, <<core>>


@<<base>>.traced
def <<entry>>(<<part>>, *values):
    """[[Serve|Help]] [[a caller|a customer|whoever asks]] of a <<part>>."""
    <<base>>.note("[[desk <<D>> is open|the desk takes a number|a caller at <<D>>]]")
    <<base>>.note("[[counter <<E>> waits|<<E>> looks on|<<E>> has time]]")
    <<middle>>(len(values))
    [[answer:answer|result|reply]] = <<core>>.<<fn>>(<<part>>, *values)
    <<base>>.note("[[served|done]], says <<F>>[[ to <<G>>|, and yawns|]]")
    return <<answer>>


@<<base>>.traced
def <<middle>>([[amount:amount|values_given|size_of_request]]):
    """[[Count|Note]] what was handed in."""
    <<base>>.note(f"[[<<H>> counts|handed in at <<H>>:]] {<<amount>>} [[papers|slips|notes]]")
    return <<amount>>
''',
    '''
"""[[Requests come in here|Where <<pkg>> is asked|The gate of <<pkg>>]]."""

from .<<base>> import note, traced
from .<<core>> import <<fn>>


@traced
def <<middle>>([[given:given|what|papers]]):
    """[[Weigh|Look at]] a request[[ before it goes on|]]."""
    note(f"[[gate <<D>>|door <<D>>]] [[lets in|passes]] {<<given>>} [[value(s)|thing(s)]]")
    return <<given>>


@traced
def <<entry>>(<<part>>, *[[rest:rest|request|details]]):
    """[[Answer|Settle]] a request."""
    note("[[request for <<E>>|somebody asks <<E>>|ring at <<E>>]]")
    note("[[<<F>> writes it down|noted by <<F>>|<<F>> nods]]")
    <<middle>>(len(<<rest>>))
    return <<fn>>(<<part>>, *<<rest>>)
''',
    '''
"""[[The agents of <<pkg>>|Who does errands for <<pkg>>|Errands]]."""

from . import <<core>> as [[inner:inner|rules|works]]
from .<<base>> import note, traced


@traced
def <<entry>>(<<part>>, *[[load:load|cargo|goods]]):
    """[[Carry|Bring]] an errand to the [[rules|works]], and [[its result|what comes of it]] back."""
    [[seen:seen|counted|listed]] = <<middle>>(len(<<load>>))
    note(f"[[errand of <<D>>|<<D>> sets out]] with {<<seen>>} [[bag(s)|box(es)]]")
    [[back:back|brought|outcome]] = <<inner>>.<<fn>>(<<part>>, *<<load>>)
    note("[[<<E>> is back|<<D>> meets <<E>>]], [[<<F>> sleeps|<<F>> sweeps|it rains on <<F>>]]")
    return <<back>>


@traced
def <<middle>>([[pieces:pieces|bags|units]]):
    """[[Check|Inspect]] the [[load|bags]]."""
    note("[[inspection by <<G>>|<<G>> looks into it]]")
    return <<pieces>>
''',
)
_FAILING = '''
def <<test>>(equal):
    """[[A case of <<X>>|<<X>> complains about this|Seen at <<X>>]]."""
    equal(expected=<<expected>>, got=<<got>>)
'''
_CASES = '''
"""[[Tests of <<pkg>>|What <<pkg>> has to do|Promises of <<pkg>>]]."""

from <<pkg>> import <<core>>, <<near>>

'''
_PASSING = '''
def <<t4>>(equal):
    """[[Handing in|Counting]] works."""
    equal(expected=<<amount_in>>, got=<<near>>.<<middle>>(<<amount_in>>))


def <<t5>>(equal):
    """[[Names|Labels]] are [[right|as ever]]."""
    equal(expected=<<returns>>, got=<<core>>.<<extra>>(<<calls>>))
'''


def modules_of(draw: Draw, bug: Bug, cases: Cases) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the texts of core, near and cases, and the names of the tests that fail."""
    imports = f"{bug.imports}\n\n" if bug.imports else ""
    extra = draw.one_of(*_EXTRAS)
    parts = draw.mixed([bug.code, extra.code])
    core = "\n\n".join(draw.text(text, W=draw.word()) for text in (_CORE.replace("<<imports>>", imports), *parts))
    near = draw.text(draw.one_of(*_NEARS))
    first, second = draw.word("pa"), draw.word("pb")
    returns = extra.returns.format(pa=first, pb=second, pa_reversed=first[::-1], pa_upper=first.upper())
    draw.set(returns=f'"{returns}"', calls=draw.line(extra.calls), amount_in=draw.number(10_000, 90_000))
    call = f'{draw.names["near"]}.{draw.names["entry"]}("{draw.names["section"]}", '
    tests, fails = [draw.text(_PASSING)], list[str]()
    for number, (got, expected) in enumerate(cases, 1):
        name = draw.names[f"t{number}"]
        got = draw.line(got).replace("@()", f"{call[:-2]})").replace("@(", call)
        tests.append(draw.text(_FAILING, test=name, expected=repr(expected), got=got, X=draw.word()))
        fails.append(name)
    all_cases = "\n\n".join([draw.text(_CASES).rstrip("\n") + "\n", *draw.mixed(tests)])
    return {"core": core, "near": near, "cases": all_cases}, tuple(fails)
