"""The data of a community hall."""

from __future__ import annotations

import random
from itertools import product

from .names import Names
from .story import Json

DAYS = 28
TIMES = ("morning", "afternoon", "evening")
LAYOUTS = ("rows", "circle", "long table", "empty")
PARTS = ("door", "cupboard", "stage", "cellar")
MONTHS = ("March", "April", "June", "July", "September", "October", "November")
KINDS = (
    "Choir",
    "Theatre",
    "Chess Club",
    "Dance Circle",
    "Book Club",
    "Orchestra",
    "Quilters",
    "Gardeners",
    "Debaters",
)
RULES = (
    "A room is booked from the page of its day.",
    "A booking that is moved gets a new number, and the old one is void.",
    "Keys are handed out at the key desk; the key board says where each belongs.",
    "A newer message takes the place of an older one about the same.",
    "An invoice names the booking as it is at that time.",
)
_CHAT = (
    "The piano in the {} wing will be tuned next week.",
    "Somebody has lost a glove near the {} stairs.",
    "The coffee machine was a gift of the {} family.",
    "Please water the plants in the {} corridor.",
    "The window of the {} corner does not close well.",
)


def draw_state(rng: random.Random) -> Json:
    """Return the data of a hall, as it is before any task."""
    names = Names(rng)
    rooms = [f"{name} Room" for name in names.names(5)]
    groups = [f"{names.name()} {kind}" for kind in KINDS]
    month, contacts, caretaker = rng.choice(MONTHS), names.people(len(groups)), names.person()
    booked, alarms, phones, members = names.prefix(), names.prefix(), names.prefix(), names.prefix()
    taken = rng.sample([*product(range(1, DAYS + 1), rooms, TIMES[:2])], 26)
    bookings = [
        new_booking(names.code(booked), day, room, time, groups[place % len(groups)], rng.choice(LAYOUTS))
        for place, (day, room, time) in enumerate(taken)
    ]
    day, later = rng.sample(range(1, DAYS + 1), 2)
    wanting, calling = rng.sample(range(len(groups)), 2)
    room = rng.choice(rooms)
    alarmed = max(rooms, key=[booking["room"] for booking in bookings].count)
    texts = [
        (contacts[wanting], *_wish(groups[wanting], room, month, day)),
        *((caretaker, *_alarm(name, names.code(alarms))) for name in rooms),
        *((names.person(), "House", text, text) for text in (t.format(names.name()) for t in rng.sample(_CHAT, 4))),
    ]
    rng.shuffle(texts)
    news = [
        (contacts[wanting], *_wish(groups[wanting], room, month, later)),
        (caretaker, *_alarm(alarmed, names.code(alarms))),
        (contacts[calling], *_telephone(groups[calling], names.code(phones))),
    ]
    numbers = rng.sample(range(100, 1000), len(texts) + len(news))
    messages = [_message(number, *text) for number, text in zip(numbers, [*texts, *news], strict=True)]
    return {
        "app": "hall",
        "name": f"{names.name()} Hall",
        "month": month,
        "week": rng.randrange(9, 40),
        "caretaker": caretaker,
        "rules": list(RULES),
        "rooms": rooms,
        "times": list(TIMES),
        "groups": [
            {"name": name, "contact": contact, "member": names.code(members), "phone": names.code(phones)}
            for name, contact in zip(groups, contacts, strict=True)
        ],
        "bookings": sorted(bookings, key=lambda booking: str(booking["number"])),
        "messages": messages[: len(texts)],
        "incoming": [{**message, "sets": []} for message in messages[len(texts) :]],
        "replies": [],
        "prices": [
            {"room": name, "kind": kind, "price": names.amount()} for name in rooms for kind in (*TIMES, "cancellation")
        ],
        "keys": [{"room": name, "part": part, "key": key} for name, part, key in _keys(rooms, names)],
        "handouts": [],
        "invoices": [],
        "numbers": names.codes(booked, 8),
        "setups": names.codes(names.prefix(), 8),
        "credits": names.codes(names.prefix(), 8),
        "bills": names.codes(names.prefix(), 8),
    }


def new_booking(number: str, day: int, room: str, time: str, group: str, layout: str) -> Json:
    """Return a booking with which nothing was done yet."""
    fresh = {"status": "booked", "alarm": "", "setup": "", "fee": "", "credit": "", "member": ""}
    return {"number": number, "day": day, "room": room, "time": time, "group": group, "layout": layout} | fresh


def _keys(rooms: list[str], names: Names) -> list[tuple[str, str, str]]:
    prefix = names.prefix()
    return [(room, part, names.code(prefix, 4)) for room in rooms for part in PARTS]


def _message(number: int, sender: str, subject: str, about: str, text: str) -> Json:
    return {"number": number, "from": sender, "subject": subject, "about": about, "text": text}


def _wish(group: str, room: str, month: str, day: int) -> tuple[str, str, str]:
    return group, f"wish of the {group}", f"The {group} wants the {room} in the evening on {month} {day}."


def _alarm(room: str, code: str) -> tuple[str, str, str]:
    return room, f"alarm code of the {room}", f"The alarm code of the {room} is {code}."


def _telephone(group: str, phone: str) -> tuple[str, str, str]:
    return group, f"telephone of the {group}", f"The new telephone of the {group} is {phone}."
