"""What is to be done in the parcel depot."""

from __future__ import annotations

from dataclasses import dataclass

from .depot_data import REASONS
from .story import Json, Known, Story
from .task import WebTask

APP = "depot"
PAGE = 10
"""Rows of a page of parcels or arrivals, as the app has it."""


@dataclass(slots=True)
class _Depot:
    """A story in the depot."""

    story: Story

    def arrivals(self, wanted: list[Json]) -> list[Known]:
        """Turn the pages of the arrivals, as far as is needed; return the numbers of parcels, in their order."""
        story, numbers = self.story, dict[str, Known]()
        places = [story.state["arrivals"].index(arrival) // PAGE for arrival in wanted]
        story.open("Arrivals")
        for page in range(max(places) + 1):
            if page:
                story.open("Next page")
            for arrival in (row for row, place in zip(wanted, places, strict=True) if place == page):
                recipient, sender, number = arrival["recipient"], arrival["sender"], arrival["number"]
                what = f"{recipient} from {sender}"
                question = f"What is the number of the parcel for {what}?"
                row = {"Recipient": recipient, "Sender": sender, "Parcel": number}
                numbers[number] = story.learn(number, f"parcel of {what}", question, **row)
        return [numbers[arrival["number"]] for arrival in wanted]

    def notice(self, about: str, question: str | None = None) -> Known:
        """Return the value at the end of the newest notice about something."""
        notice = next(row for row in self.story.after["messages"] if row["about"] == about)
        value = notice["text"].rstrip(".").split()[-1]
        return self.story.learn(value, about, question, From=notice["from"], Notice=notice["text"])

    def code(self, person: str) -> Known:
        """Return a recipient's collection code."""
        return self.notice(f"collection code of {person}")

    def fee(self, row: Json) -> Known:
        """Return a fee of the tariff."""
        size, district = row["size"], row["district"]
        question = f"What is the fee for a {size} parcel to {district}?"
        key = f"fee of a {size} parcel to {district}"
        return self.story.learn(row["fee"], key, question, Size=f"{size} parcel", District=district, Fee=row["fee"])

    def shelf(self, row: Json) -> Known:
        """Return a free shelf."""
        goods, aisle = row["goods"], row["aisle"]
        question = f"Which shelf is free for {goods} goods in aisle {aisle}?"
        key = f"shelf of {goods} goods in aisle {aisle}"
        cells = {"Kind": f"{goods} goods", "Place": f"aisle {aisle}", "Shelf": row["shelf"]}
        return self.story.learn(row["shelf"], key, question, **cells)

    def seal(self, number: Known) -> Known:
        """Return the seal of the parcel whose page is open."""
        return self.story.see(f"Seal of {number.value}", self.parcel(number.value)["seal"])

    def parcel(self, number: str) -> Json:
        """Return a parcel as it has to be."""
        parcels: list[Json] = self.story.after["parcels"]
        return next(parcel for parcel in parcels if parcel["number"] == number)

    def find(self, number: Known, *, press: bool = False) -> None:
        """Open a parcel by its number."""
        self.story.open("Parcels")
        self.story.type("Parcel number", number)
        if press:
            self.story.act("key", 'textbox "Parcel number"', "Enter")
        else:
            self.story.click("button", "Find parcel")

    def pick(self, number: Known) -> None:
        """Open a parcel of the list, on the page where it stands."""
        numbers = [parcel["number"] for parcel in self.story.state["parcels"]]
        self.story.open("Parcels", *["Next page"] * (numbers.index(number.value) // PAGE))
        self.story.click("link", "Parcel {parcel}", parcel=number)

    def hand_over(self, number: Known, code: Known) -> Known:
        """Hand over the parcel whose page is open; return the receipt."""
        self.story.type("Collection code", code)
        self.story.click("button", "Hand over parcel")
        receipt = self.story.after["receipts"].pop(0)
        self.parcel(number.value).update(status="handed over", code=code.value, receipt=receipt)
        return self.story.see(f"Receipt of {number.value}", receipt)

    def dispatch(self, number: Known, district: str, van: Known, seal: Known) -> Known:
        """Send out a parcel; return the trip."""
        story = self.story
        story.open("Dispatch")
        story.type("Parcel number", number)
        story.select("District", district)
        story.type("Vehicle", van)
        story.type("Seal", seal)
        story.click("button", "Dispatch parcel")
        self.parcel(number.value)["status"] = "dispatched"
        trip = story.after["trips"].pop(0)
        sent = {"number": number.value, "district": district, "van": van.value, "seal": seal.value, "trip": trip}
        story.after["dispatches"].append(sent)
        row = {"District": district, "Vehicle": van.value, "Parcel": number.value, "Trip": trip}
        return story.learn(trip, f"trip of {number.value}", **row)

    def enter(self, what: str, number: Known) -> None:
        """Enter a number in the day sheet, which is open."""
        self.story.select("Entry", what)
        self.story.type("Number", number)
        self.story.click("button", "Add entry")
        self.story.after["sheet"].append({"what": what, "number": number.value})


def counter(story: Story) -> WebTask:
    """Return a task at the counter: two parcels are handed over, the code changes between them, a third is moved."""
    depot, rng, state = _Depot(story), story.rng, story.state
    first, second, third = _three(story, same_person=True)
    person = first["recipient"]
    fee_row, shelf_row = rng.choice(state["fees"]), rng.choice(state["shelves"])
    p1, p2, p3 = depot.arrivals([first, second, third])
    story.next_stage()
    story.open("Notices")
    code = depot.code(person)
    story.open("Tariff")
    fee = depot.fee(fee_row)
    story.next_stage()
    story.open("Shelves")
    shelf = depot.shelf(shelf_row)
    story.open("Rounds")
    story.act("scroll", "", "down")
    story.next_stage()
    depot.find(p1)
    story.type("Fee", fee)
    story.click("button", "Charge fee")
    depot.parcel(p1.value)["fee"] = fee.value
    receipt1 = depot.hand_over(p1, code)
    story.next_stage()
    story.fetch("Notices")
    code = depot.code(person)
    story.next_stage()
    story.open("Tariff")
    depot.find(p2, press=True)
    receipt2 = depot.hand_over(p2, code)
    story.next_stage()
    depot.pick(p3)
    story.type("New shelf", shelf)
    story.click("button", "Move parcel")
    depot.parcel(p3.value)["shelf"] = shelf.value
    story.next_stage()
    story.open("Rounds", "Day sheet")
    depot.enter("Receipt", receipt1)
    depot.enter("Receipt", receipt2)
    story.wishes += [
        f"Look up the arrivals of {person} from {first['sender']} and from {second['sender']}, "
        f"and of {third['recipient']} from {third['sender']}.",
        f"Look up the collection code of {person}, the fee for a {fee_row['size']} parcel to {fee_row['district']}, "
        f"and the free shelf for {shelf_row['goods']} goods in aisle {shelf_row['aisle']}.",
        f"Charge that fee on the parcel of {person} from {first['sender']}, then hand the parcel over.",
        f"Fetch the new notices. After that, hand over the parcel of {person} from {second['sender']} "
        "with the collection code that holds by then.",
        f"Move the parcel of {third['recipient']} from {third['sender']} to that shelf.",
        "Enter both receipts in the day sheet, in the order of the parcels.",
    ]
    return story.finish(APP, f"Work at the counter of the {state['name']}:")


def loading(story: Story) -> WebTask:
    """Return a task at the ramp: two parcels are sent out, the van changes between them, a third is sent back."""
    depot, rng, state = _Depot(story), story.rng, story.state
    first, second, third = _three(story, same_person=False)
    van_key = state["incoming"][1]["about"]
    round_ = next(row for row in state["rounds"] if van_key == f"van of {row['district']}")
    fee_row = rng.choice(state["fees"])
    district, reason = round_["district"], rng.choice(REASONS)
    story.open("Rounds")
    van_question = f"What is the van that goes to {district}?"
    row = {"Driver": round_["driver"], "District": district, "Vehicle": f"Van {round_['van']}"}
    van = story.learn(round_["van"], van_key, van_question, **row)
    p1, p2, p3 = depot.arrivals([first, second, third])
    story.next_stage()
    story.open("Tariff")
    fee = depot.fee(fee_row)
    story.open("Shelves")
    story.next_stage()
    depot.find(p1)
    seal1 = depot.seal(p1)
    story.next_stage()
    story.act("goto", "", "#/shelves")
    story.open("Notices")
    trip = depot.dispatch(p1, district, van, seal1)
    story.next_stage()
    story.fetch("Notices")
    van = depot.notice(van_key, van_question)
    story.next_stage()
    depot.pick(p2)
    story.select("Reason", reason)
    story.type("Handling fee", fee)
    story.click("button", "Send parcel back")
    label = story.after["labels"].pop(0)
    depot.parcel(p2.value).update(status="sent back", reason=reason, fee=fee.value, label=label)
    sent_back = story.see(f"Label for sending back {p2.value}", label)
    story.next_stage()
    depot.find(p3, press=True)
    seal3 = depot.seal(p3)
    story.act("back")
    story.next_stage()
    story.open("Shelves", "Tariff")
    depot.dispatch(p3, district, van, seal3)
    story.next_stage()
    story.open("Parcels", "Notices", "Day sheet")  # the page of the dispatches shows the first trip again
    depot.enter("Label", sent_back)
    depot.enter("Trip", trip)
    story.wishes += [
        f"Look up the van that goes to {district}.",
        f"Look up the arrivals of {first['recipient']} from {first['sender']}, "
        f"of {second['recipient']} from {second['sender']}, and of {third['recipient']} from {third['sender']}.",
        f"Look up the fee for a {fee_row['size']} parcel to {fee_row['district']}.",
        f"Read the seal of the parcel for {first['recipient']}, and dispatch it to {district} with that van.",
        "Fetch the new notices.",
        f"Send back the parcel for {second['recipient']}, reason: {reason}, with that fee as the handling fee.",
        f"Read the seal of the parcel for {third['recipient']}, and dispatch it to {district} "
        "with the van that holds by then.",
        "Enter in the day sheet, in this order: the label of the parcel that was sent back, the trip of the first one.",
    ]
    return story.finish(APP, f"Work at the ramp of the {state['name']}:")


def _three(story: Story, *, same_person: bool) -> tuple[Json, Json, Json]:
    """Return three arrivals of three people; or two of the person whose code changes, and one of another."""
    arrivals, rng = story.state["arrivals"], story.rng
    of: dict[str, list[Json]] = {}
    for arrival in arrivals:
        of.setdefault(arrival["recipient"], []).append(arrival)
    if same_person:
        person = story.state["incoming"][0]["about"].removeprefix("collection code of ")
        first, second = rng.sample(of.pop(person), 2)
        return first, second, rng.choice(of[rng.choice(sorted(of))])
    first, second, third = (rng.choice(of[person]) for person in rng.sample(sorted(of), 3))
    return first, second, third
