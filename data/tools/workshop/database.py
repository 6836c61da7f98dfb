"""The workshop's databases, made by a seed."""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import product

from ..world import Domain, Json
from .tools import ASSERTIONS, POLICY, TOOLS, USER_TOOLS, new_code

FIRST = (
    "Ada", "Bram", "Cleo", "Dario", "Esme", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kaya", "Lorin", "Mabel",
    "Nils", "Oona", "Pavel", "Quentin", "Rosa", "Silas", "Tilda",
)  # fmt: skip
LAST = (
    "Quist", "Vermeer", "Okafor", "Lindqvist", "Moreau", "Tanaka", "Brandt", "Castellan", "Duarte", "Eriksen",
    "Fontaine", "Gruber", "Halloran", "Ivanov",
)  # fmt: skip
STREETS = (
    "Alder Row", "Mill Lane", "Harbour View", "Chapel Hill", "Orchard Close", "Station Parade", "Weaver Yard",
    "Lantern Walk", "Cooper Gate", "Juniper Rise", "Quarry Bank", "Saddler Court",
)  # fmt: skip
COLOURS = "teal crimson silver olive amber violet ivory cobalt".split()
MODELS = "Heron Kestrel Marlin Otter Badger Falcon Pike Lynx".split()
PARTS = (
    "brake pads", "chain", "inner tube", "saddle", "bottle cage", "front light", "pedals", "grips", "mudguard",
    "bell", "rear rack", "kickstand",
)  # fmt: skip
WORK = ("gear adjustment", "wheel truing", "bearing service", "spoke replacement", "brake bleeding", "cable renewal")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
HOURS = ("9:00", "11:00", "14:00", "16:00")
MECHANICS = ("Olsen", "Petrov", "Mbeki", "Sato", "Rossi")
WEEKS = (14, 15)
BRANCH = 8
"""Customers of one branch, who share a database."""


@lru_cache(maxsize=64)
def domain_of(seed: int, branch: int) -> Domain:
    """Return a branch of the workshop: customers ``BRANCH * branch`` and the next seven. Nobody may change it."""
    rng = random.Random(f"workshop:{seed}:{branch}")
    database: Json = {name: {} for name in ("customers", "bicycles", "parts", "orders", "bookings", "slots")}
    for number, (model, part) in enumerate(product(MODELS, PARTS)):
        part_id = f"P-{rng.randrange(10, 99)}{number:03}"
        database["parts"][part_id] = {
            "part_id": part_id,
            "part": part,
            "fits": [code_of(model)],
            "price": rng.randrange(600, 9000) / 100,
            "shelf": f"{rng.choice('ABCDEF')}{rng.randrange(1, 40)}",
            "stock": rng.randrange(2, 20),
        }
    numbers = rng.sample(range(100, 1000), len(WEEKS) * len(DAYS) * len(HOURS))
    mechanics = [rng.choice(MECHANICS) for _ in numbers]
    for number, mechanic, (week, day, hour) in zip(numbers, mechanics, product(WEEKS, DAYS, HOURS), strict=True):
        slot = {"slot_id": f"S-{number}", "week": week, "day": day, "hour": hour, "mechanic": mechanic, "free": True}
        database["slots"][slot["slot_id"]] = slot
    for customer in range(BRANCH * branch, BRANCH * (branch + 1)):
        _add_customer(database, customer, rng)
    texts = {name: f"Your drop-off code is {new_code('D', seed, name)}." for name in database["customers"]}
    messages = {name: {"text": text, "opened": False} for name, text in texts.items()}
    return Domain(POLICY, TOOLS, USER_TOOLS, ASSERTIONS, database, {"messages": messages})


def code_of(model: str) -> str:
    """Return the code of a model."""
    return f"{model[:2].upper()}{len(model)}-{10 + MODELS.index(model)}"


def _add_customer(database: Json, number: int, rng: random.Random) -> None:
    first, last = FIRST[number % len(FIRST)], LAST[(number + number // len(FIRST)) % len(LAST)]
    customer_id = f"C-{rng.randrange(10, 99)}{number:03}"
    database["customers"][customer_id] = {
        "customer_id": customer_id,
        "name": f"{first} {last}",
        "phone": f"0{rng.randrange(400, 500)}-{rng.randrange(100, 1000)}-{1000 + number}",
        "street": f"{rng.randrange(1, 90)} {rng.choice(STREETS)}",
    }
    colours, models, work = rng.sample(COLOURS, 3), rng.sample(MODELS, 3), rng.sample(WORK, 3)
    parts = rng.sample(PARTS, 9)
    taken = [slot for slot in database["slots"].values() if slot["free"] and slot["week"] == WEEKS[0]]
    slots = rng.sample(taken, 2)
    for place, (colour, model) in enumerate(zip(colours, models, strict=True)):
        frame_number = f"F-{rng.randrange(10, 99)}{number:03}{place}"
        database["bicycles"][frame_number] = {
            "frame_number": frame_number,
            "customer_id": customer_id,
            "colour": colour,
            "model": model,
            "model_code": code_of(model),
            "bought": f"20{rng.randrange(15, 26)}",
        }
        if place < len(slots):
            slots[place]["free"] = False
            booking_id = f"B-{rng.randrange(10, 99)}{number:03}{place}"
            database["bookings"][booking_id] = {
                "booking_id": booking_id,
                "customer_id": customer_id,
                "frame_number": frame_number,
                "work": work[place],
                "status": "booked",
                "slot_id": slots[place]["slot_id"],
                "pickup_code": new_code("", booking_id),
            }
        order_id = f"R-{rng.randrange(10, 99)}{number:03}{place}"
        database["orders"][order_id] = {
            "order_id": order_id,
            "customer_id": customer_id,
            "status": ("open", "delivered", "delivered")[place],
            "street": database["customers"][customer_id]["street"],
            "delivery_code": new_code("", order_id),
            "items": [
                {
                    "item_id": f"I-{rng.randrange(10, 99)}{number:03}{place}{item}",
                    "part": part,
                    "part_id": f"P-{rng.randrange(10000, 99999)}",
                    "price": rng.randrange(600, 9000) / 100,
                }
                for item, part in enumerate(parts[3 * place : 3 * place + 3])
            ],
        }
