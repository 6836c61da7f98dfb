"""The data of a parcel depot."""

from __future__ import annotations

import random
from collections import Counter

from .names import Names
from .story import Json

SIZES = ("small", "medium", "large")
GOODS = ("fragile", "heavy", "chilled", "bulky")
WARES = ("Books", "Tools", "Seeds", "Glass", "Paper", "Cloth")
REASONS = ("refused", "address unknown", "not collected", "damaged")
RULES = (
    "Names of recipients stand on the list of arrivals and nowhere else.",
    "A parcel that is handed over gets a receipt.",
    "A seal is read off the parcel before it leaves.",
    "Newer notices replace older ones.",
    "Every number goes into the day sheet by hand.",
)
_CHAT = (
    "The heater at the {} gate makes a noise again.",
    "Somebody left a bicycle beside the {} door.",
    "Please sweep the {} ramp before noon.",
    "The lamp above the {} table has been mended.",
    "There is cake in the kitchen, {} baked it.",
    "The scale in the {} corner is slow this week.",
)


def draw_state(rng: random.Random) -> Json:
    """Return the data of a depot, as it is before any task."""
    names = Names(rng)
    prefix = names.prefix()
    districts, drivers = names.names(9), names.people(9)
    recipients, senders = names.people(11), [f"{names.name()} {ware}" for ware in WARES]
    pairs = [(recipient, sender) for recipient in recipients for sender in rng.sample(senders, 3)]
    rng.shuffle(pairs)
    arrivals = [
        {"recipient": recipient, "sender": sender, "number": names.code(prefix)} for recipient, sender in pairs[:30]
    ]
    numbers = sorted(arrival["number"] for arrival in arrivals)
    seals, shelves, writers = names.prefix(), names.prefix(), names.people(4)
    codes, vans = names.prefix(), names.prefix()
    messages = [_code_notice(rng.choice(writers), person, names.code(codes)) for person in recipients]
    chat = [text.format(names.name()) for text in rng.sample(_CHAT, 3)]
    messages += [{"from": rng.choice(writers), "about": text, "text": text} for text in chat]
    rng.shuffle(messages)
    rounds = [
        {"driver": driver, "district": district, "van": names.code(vans, 4)}
        for driver, district in zip(drivers, districts, strict=True)
    ]
    counts = Counter(arrival["recipient"] for arrival in arrivals)
    person = rng.choice([person for person in recipients if counts[person] > 1])
    place, van = rng.randrange(len(rounds)), names.code(vans, 4)
    other = _van_notice(rng.choice(writers), rounds[place]["district"], van)
    incoming = [
        {**_code_notice(rng.choice(writers), person, names.code(codes)), "sets": []},
        {**other, "sets": [{"at": ["rounds", place, "van"], "is": van}]},
    ]
    return {
        "app": "depot",
        "name": f"{names.name()} Depot",
        "chief": names.person(),
        "rules": list(RULES),
        "arrivals": arrivals,
        "parcels": [
            {
                "number": number,
                "size": rng.choice(SIZES),
                "status": "stored",
                "shelf": names.code(shelves, 4),
                "seal": names.code(seals),
                "fee": "",
                "code": "",
                "receipt": "",
                "reason": "",
                "label": "",
            }
            for number in numbers
        ],
        "messages": messages,
        "incoming": incoming,
        "fees": [
            {"size": size, "district": district, "fee": names.amount()} for district in districts[:5] for size in SIZES
        ],
        "shelves": [
            {"goods": goods, "aisle": aisle, "shelf": names.code(shelves, 4)} for aisle in (1, 2, 3) for goods in GOODS
        ],
        "rounds": rounds,
        "dispatches": [],
        "sheet": [],
        "receipts": names.codes(names.prefix(), 8),
        "trips": names.codes(names.prefix(), 8),
        "labels": names.codes(names.prefix(), 8),
    }


def _code_notice(sender: str, person: str, code: str) -> Json:
    about = f"collection code of {person}"
    return {"from": sender, "about": about, "text": f"The {about} is {code}."}


def _van_notice(sender: str, district: str, van: str) -> Json:
    about = f"van of {district}"
    return {"from": sender, "about": about, "text": f"The van that goes to {district} is {van}."}
