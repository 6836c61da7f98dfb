"""What customers of the workshop want: tasks in a dialogue, and tasks across calls."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..plot import Known, Plot, Told
from ..row import Basis, Criteria, EnvAssertion, Instructions, Row, UserScenario
from ..task import ToolsTask
from ..world import Json
from .database import BRANCH, STREETS, WEEKS, code_of, domain_of

NAME = "workshop"

_CHAT = (
    "Sorry, the line is bad here; the tram is just going past my window.",
    "I rode along the canal all weekend, and the wind was against me in both directions.",
    "My neighbour keeps telling me that I should oil everything twice a week.",
    "The children have been playing in the yard, so please do not mind the noise.",
    "I have had a long day, and the coffee here is not helping at all.",
    "Last autumn somebody told me that old steel is better than anything that is sold today.",
    "I am writing with a pencil that is far too short, give me a moment.",
    "My sister has one as well, hers squeaks, and nobody can find out why.",
    "It has rained for nine days, and the path along the river is nothing but mud.",
    "I used to come by in person, but since the bridge is closed it takes an hour.",
    "There was a long queue at the bakery, and I thought about wheels the whole time.",
    "The cat is sitting on my papers again, one second please.",
    "You have been kind the last time, and I told everybody at the choir.",
    "We are planning a tour to the lakes, if the weather ever allows it.",
)
REASONS = ("it is too small", "it came scratched", "it does not fit", "the colour is wrong")


@dataclass(frozen=True, slots=True)
class Caller:
    """A customer, and what the database has of the customer's."""

    seed: int
    number: int
    customer: Json
    bicycles: list[Json]
    bookings: list[Json]
    orders: list[Json]

    @classmethod
    def of(cls, seed: int, number: int) -> Caller:
        """Return a customer of the workshop that ``seed`` makes."""
        database = domain_of(seed, number // BRANCH).database
        customer = list(database["customers"].values())[number % BRANCH]

        def own(table: str) -> list[Json]:
            return [row for row in database[table].values() if row["customer_id"] == customer["customer_id"]]

        return cls(seed, number, customer, own("bicycles"), own("bookings"), own("orders"))

    @property
    def id(self) -> str:
        """The customer's id."""
        return str(self.customer["customer_id"])

    @property
    def domain(self) -> str:
        """What the customer's world is made from."""
        return f"{NAME}:{self.seed}:{self.number // BRANCH}"

    def bicycle(self, place: int) -> str:
        """Return what the customer calls a bicycle."""
        return f"{self.bicycles[place]['colour']} {self.bicycles[place]['model']}"


@dataclass(slots=True)
class _Story:
    """A task in the making, with the values that were told so far."""

    caller: Caller
    rng: random.Random
    plot: Plot
    wishes: list[str]
    assertions: list[EnvAssertion]
    replies: list[tuple[str, str, Known]]
    """What the agent is to tell the customer: what it is, the name of the slot, and the value."""

    def say(self, text: str, *, chat: int = 2) -> Told:
        """Let the customer say something, with small talk around it."""
        talk = self.rng.sample(_CHAT, chat)
        return self.plot.say("\n".join([*talk[: chat // 2], text, *talk[chat // 2 :]]))

    def tell(self) -> None:
        """Let the agent tell the customer what has come of it."""
        for what, name, known in self.replies:
            self.plot.reply(f"{what} is {{{name}}}.", **{name: known})
        self.replies.clear()

    def listed(self, told: Told) -> dict[str, Known]:
        """Return what a customer's record tells of bicycles, repairs and orders."""
        known = {}
        caller = self.caller
        for place, row in enumerate(caller.bicycles):
            bicycle = caller.bicycle(place)
            for name, what in (("frame_number", "frame number"), ("model_code", "model code")):
                question = f"What is the {what} of the {bicycle}?"
                known[f"{name} {place}"] = self.plot.learn(told, row[name], f"{what} of the {bicycle}", question)
        for place, row in enumerate(caller.bookings):
            bicycle = caller.bicycle(place)
            question = f"What is the booking id of the repair of the {bicycle}?"
            known[f"booking {place}"] = self.plot.learn(
                told, row["booking_id"], f"booking id of the {bicycle}", question
            )
        for place, row in enumerate(caller.orders):
            parts = self.parts(place)
            question = f"What is the order id of the order with the {parts}?"
            known[f"order {place}"] = self.plot.learn(told, row["order_id"], f"order id of the {parts}", question)
        return known

    def parts(self, place: int) -> str:
        """Return what the customer calls an order."""
        return " and the ".join(item["part"] for item in self.caller.orders[place]["items"][:2])

    def free_slot(self, week: int, *, other: str = "") -> Json:
        """Return a slot that is free now, another one than ``other``."""
        free = self.plot.world.call("list_slots", {"week": week}).value
        slot: Json = self.rng.choice([slot for slot in free if slot["slot_id"] != other])
        return slot

    def slot(self, told: Told, slot: Json, week: int) -> Known:
        """Return the id of a slot of a listing."""
        when = f"on {slot['day']} at {slot['hour']}"
        question = f"What is the slot id of the free slot {when} in the list of week {week}?"
        return self.plot.learn(told, slot["slot_id"], f"slot id of {when} in week {week}", question)

    def code(self, told: Told, name: str, what: str) -> Known:
        """Note a code that the customer is to be given."""
        words = name.replace("_", " ")
        known = self.plot.learn(told, told.value[name], f"{words} of the {what}", f"What is the {words} of the {what}?")
        self.replies.append((f"The {words} of the {what}", name, known))
        return known

    def asserted(self, function: str, **arguments: Any) -> None:
        """Note what has to hold at the end."""
        self.assertions.append(EnvAssertion(env_type="assistant", func_name=function, arguments=arguments))


_Part = Iterator[None]
"""A wish in two parts: what is looked up, and what is done, with other things in between."""


def _move(story: _Story, known: dict[str, Known]) -> _Part:
    week, bicycle = WEEKS[1], story.caller.bicycle(0)
    slot = story.free_slot(week)
    story.wishes.append(f"Put off the {bicycle}: week {week}, {slot['day']}, {slot['hour']}.")
    story.say(f"The repair of my {bicycle} comes too early for me. What is free in week {week}?")
    told = story.plot.call("list_slots", {"week": week})
    slot_id = story.slot(told, slot, week)
    yield
    story.say(f"About the {bicycle} again: please move it to {slot['day']} at {slot['hour']}.")
    told = story.plot.call("move_repair", {"booking_id": known["booking 0"], "slot_id": slot_id})
    story.code(told, "pickup_code", bicycle)
    story.asserted("repair_is_in", booking_id=known["booking 0"].value, slot_id=slot_id.value)


def _order(story: _Story, known: dict[str, Known]) -> _Part:
    bicycle = story.caller.bicycle(1)
    model = story.caller.bicycles[1]["model"]
    story.say(f"What do you have that fits my {bicycle}?")
    told = story.plot.call("find_parts", {"model_code": known["model_code 1"]})
    part = story.rng.choice(told.value)
    story.wishes.append(f"Buy {part['part']} matching your {bicycle}.")
    key = f"part id of the {part['part']} for the {model}"
    question = f"What is the part id of the {part['part']} that fits the {model}, {code_of(model)}?"
    part_id = story.plot.learn(told, part["part_id"], key, question)
    yield
    story.say(f"Now the {part['part']} for the {bicycle}: I take one.")
    told = story.plot.call("order_part", {"customer_id": known["customer"], "part_id": part_id})
    what = f"new order with the {part['part']}"
    story.code(told, "delivery_code", what)
    story.asserted("order_goes_to", order_id=told.value["order_id"], street=story.caller.customer["street"])


def _redirect(story: _Story, known: dict[str, Known]) -> _Part:
    parts = story.parts(0)
    street = f"{story.rng.randrange(1, 90)} {story.rng.choice(STREETS)}"
    story.wishes.append(f"Your open delivery has to reach {street}: mention it early, ask for it late.")
    said = story.say(f"I will not be at home next week.\nThe new street for the {parts} is {street}.", chat=0)
    key, question = f"new street of the order with the {parts}", f"What is the new street for the {parts}?"
    new = story.plot.learn(said, street, key, question)
    story.plot.call("get_order", {"order_id": known["order 0"]})
    yield
    story.say(f"Please send the order with the {parts} to the new street now.")
    told = story.plot.call("redirect_order", {"order_id": known["order 0"], "street": new})
    story.code(told, "delivery_code", f"order with the {parts}")
    story.asserted("order_goes_to", order_id=known["order 0"].value, street=street)


def _return(story: _Story, known: dict[str, Known]) -> _Part:
    place = 1
    parts, order = story.parts(place), story.caller.orders[place]
    item, reason = story.rng.choice(order["items"]), story.rng.choice(REASONS)
    story.wishes.append(f"Get rid of your {item['part']}, you do not like it.")
    story.say(f"Can you look up what I paid in the order with the {parts}?")
    told = story.plot.call("get_order", {"order_id": known[f"order {place}"]})
    key, question = f"item id of the {item['part']}", f"What is the item id of the {item['part']}?"
    item_id = story.plot.learn(told, item["item_id"], key, question)
    yield
    story.say(f"I want to give back the {item['part']} of the order with the {parts}: {reason}.")
    arguments = {"order_id": known[f"order {place}"], "item_id": item_id, "reason": reason}
    told = story.plot.call("return_part", arguments)
    story.code(told, "return_label", item["part"])
    story.asserted("part_is_returned", order_id=order["order_id"], item_id=item["item_id"])


_WISHES: tuple[Callable[[_Story, dict[str, Known]], _Part], ...] = (_move, _order, _redirect, _return)


def inside(caller: Caller) -> ToolsTask:
    """Return a task in one dialogue, of six calls: two wishes, each looked up first and done later."""
    story = _story(caller, "inside")
    plot, name = story.plot, caller.customer["name"]
    said = story.say(f"Hello, this is {name}.\nMy telephone number is {caller.customer['phone']}.")
    phone = plot.learn(
        said,
        caller.customer["phone"],
        "telephone number of the customer",
        "What is the telephone number of the customer?",
    )
    told = plot.call("find_customer", {"phone": phone})
    customer = plot.learn(told, caller.id, "customer id of the customer", "What is the customer id of the customer?")
    known = {"customer": customer} | story.listed(plot.call("get_customer", {"customer_id": customer}))
    wishes = [wish(story, known) for wish in story.rng.sample(_WISHES, 2)]
    for wish in (*wishes, *wishes):
        plot.next_stage()
        next(wish, None)
    plot.next_stage()
    story.say("That is all.\nWhich codes do I have to keep?", chat=4)
    story.tell()
    return _finished(story, ("DB", "COMMUNICATE"))


def across(caller: Caller) -> ToolsTask:
    """Return a task of four calls of the same customer: a later call needs what an earlier call told or gave back."""
    story = _story(caller, "across")
    plot, name, week = story.plot, caller.customer["name"], WEEKS[1]
    said = story.say(f"Hello, {name} speaking.\nMy customer id is {caller.id}.")
    key, question = "customer id of the customer", "What is the customer id of the customer?"
    customer = plot.learn(said, caller.id, key, question)
    known = {"customer": customer} | story.listed(plot.call("get_customer", {"customer_id": customer}))
    later = _redirect(story, known) if caller.number % 2 else _return(story, known)
    next(later)

    plot.next_stage()
    bicycle, work = caller.bicycle(2), "full inspection"
    first = story.free_slot(week)
    second = story.free_slot(week, other=first["slot_id"])
    while second["day"] == first["day"]:
        second = story.free_slot(week, other=first["slot_id"])
    story.wishes.append(f"Your {bicycle} needs a {work}: choose {first['day']}, change your mind two calls later.")
    story.say(f"It is {name} again.\nWhen can the {bicycle} have a {work} in week {week}?")
    told = plot.call("list_slots", {"week": week})
    slots = [story.slot(told, slot, week) for slot in (first, second)]
    story.say(f"Then book the {bicycle} for {first['day']} at {first['hour']}.", chat=0)
    told = plot.call("book_repair", {"frame_number": known["frame_number 2"], "slot_id": slots[0], "work": work})
    booked = f"repair of the {bicycle}"
    booking = plot.learn(
        told, told.value["booking_id"], f"booking id of the {booked}", f"What is the booking id of the {booked}?"
    )
    story.code(told, "pickup_code", bicycle)

    plot.next_stage()
    read = plot.call("open_message", {"customer_id": caller.id}, requestor="user")
    code = read.value.split()[-1].strip(".")
    said = story.say(
        f"{name} here.\nThe drop-off code of the courier is {code}.\nPlease note it.\nWhat is the pickup code?"
    )
    key = "drop-off code of the courier"
    drop_off = plot.learn(said, code, key, "What is the drop-off code of the courier?")
    story.tell()
    next(later, None)

    plot.next_stage()
    story.say(
        f"Me again, {name}.\nThe {bicycle} has to wait: make it {second['day']} at {second['hour']} of week {week}."
    )
    told = plot.call("move_repair", {"booking_id": booking, "slot_id": slots[1]})
    story.code(told, "pickup_code", bicycle)
    story.asserted("repair_is_in", booking_id=booking.value, slot_id=slots[1].value)
    story.replies.append(("The drop-off code of the courier", "drop_off_code", drop_off))
    story.say("And now tell me once more which codes I need, all of them.", chat=2)
    story.tell()
    return _finished(story, ("DB", "ENV_ASSERTION", "ACTION", "COMMUNICATE"))


def _story(caller: Caller, shape: str) -> _Story:
    plot = Plot(f"{caller.id}-{shape}", domain_of(caller.seed, caller.number // BRANCH).open())
    return _Story(caller, random.Random(f"{NAME}:{caller.seed}:{plot.id}"), plot, [], [], [])


def _finished(story: _Story, basis: tuple[Basis, ...]) -> ToolsTask:
    plot, caller = story.plot, story.caller
    communicated = [str(value) for step in plot.steps if step.kind == "reply" for value in step.arguments.values()]
    name, phone = caller.customer["name"], caller.customer["phone"]
    script = Instructions(
        domain=NAME,
        reason_for_call=" ".join(story.wishes),
        known_info=f"You are {name}, reachable under {phone}, and registered as {caller.id}.",
        unknown_info="You have forgotten every number that the workshop uses for bicycles, orders and repairs.",
        task_instructions="Chat a lot, reveal a wish only when its turn has come, and ring off with your codes.",
    )
    row = Row(
        id=plot.id,
        description={"purpose": f"{plot.id.rpartition('-')[2]}: {len(plot.actions)} calls, {plot.stage + 1} stages"},
        user_scenario=UserScenario(instructions=script),
        evaluation_criteria=Criteria(
            actions=tuple(plot.actions),
            env_assertions=tuple(story.assertions),
            communicate_info=tuple(dict.fromkeys(communicated)),
            reward_basis=basis,
        ),
    )
    return plot.finish(group=caller.id, domain=caller.domain, row=row)
