"""What is to be done in the community hall."""

from __future__ import annotations

from dataclasses import dataclass

from .hall_data import LAYOUTS, PARTS, TIMES, new_booking
from .story import Json, Known, Story
from .task import WebTask

APP = "hall"
PAGE = 10
"""Rows of a page of bookings, as the app has it."""


@dataclass(slots=True)
class _Hall:
    """A story in the hall."""

    story: Story

    def message(self, about: str) -> Json:
        """Open the newest message about something, and return it."""
        messages: list[Json] = self.story.after["messages"]
        message = next(row for row in messages if row["about"] == about)
        self.story.open("Messages", f"Message {message['number']}")
        return message

    def read(self, about: str, question: str | None = None) -> Known:
        """Return the value at the end of the newest message about something."""
        text = self.message(about)["text"]
        return self.story.learn(text.rstrip(".").split()[-1], about, question, Message=text)

    def member(self, name: str) -> Known:
        """Return a group's member number, on the page of groups."""
        group = next(row for row in self.story.state["groups"] if row["name"] == name)
        question = f"What is the member number of the {name}?"
        cells = {"Contact": group["contact"], "Group": f'link "{name}"', "Membership": f"Member {group['member']}"}
        return self.story.learn(group["member"], f"member number of {name}", question, **cells)

    def price(self, room: str, kind: str) -> Known:
        """Return a price."""
        price = next(row["price"] for row in self.story.state["prices"] if (row["room"], row["kind"]) == (room, kind))
        return self.story.learn(price, f"price of the {room} for {kind}", Place=room, For=kind, Price=price)

    def key(self, room: str, part: str) -> Known:
        """Return a key of the board."""
        key = next(row["key"] for row in self.story.state["keys"] if (row["room"], row["part"]) == (room, part))
        question = f"Which key belongs to the {part} of the {room}?"
        return self.story.learn(key, f"key of the {room}, {part}", question, Place=room, Part=part, Key=key)

    def booked(self, number: str) -> Known:
        """Return the number of a booking, on its page."""
        row = self.booking(number)
        of = f"of the {row['group']} for the {row['room']}"
        return self.story.see(f"Booking number {of}", number)

    def own(self, number: str) -> Known:
        """Return the number of a booking, on the page of its group."""
        row = self.booking(number)
        day, room, time = f"{self.story.state['month']} {row['day']}", row["room"], row["time"]
        question = f"What is the number of the booking on {day} in the {room} in the {time}?"
        cells = {"Day": day, "Room": room, "Time": time, "Number": number}
        return self.story.learn(number, f"booking of {day}, {room}, {time}", question, **cells)

    def booking(self, number: str) -> Json:
        """Return a booking as it has to be."""
        bookings: list[Json] = self.story.after["bookings"]
        return next(row for row in bookings if row["number"] == number)

    def pick(self, number: Known) -> None:
        """Open a booking of the list, on the page where it stands."""
        numbers = sorted(row["number"] for row in self.story.after["bookings"])
        self.story.open("Bookings", *["Next page"] * (numbers.index(number.value) // PAGE))
        self.story.click("link", "Booking {booking}", booking=number)

    def set_up(self, number: Known, layout: str, alarm: Known) -> Known:
        """Set up the room of the booking whose page is open; return the number of the setup."""
        self.story.select("Layout", layout)
        self.story.type("Alarm code", alarm)
        self.story.click("button", "Save setup")
        setup = self.story.after["setups"].pop(0)
        self.booking(number.value).update(layout=layout, alarm=alarm.value, setup=setup)
        return self.story.see(f"Setup number of {number.value}", setup)

    def reply(self, about: str, text: str, **known: Known) -> None:
        """Answer the newest message about something."""
        number = self.message(about)["number"]
        self.story.fill("type", "Reply", text, **known)
        self.story.click("button", "Send reply")
        said = text.format(**{name: value.value for name, value in known.items()})
        self.story.after["replies"].append({"to": number, "text": said})


def booking(story: Story) -> WebTask:
    """Return a task with a new booking: it is made, invoiced, moved to another day, and gets its key."""
    hall, rng, state, after = _Hall(story), story.rng, story.state, story.after
    about = state["incoming"][0]["about"]
    group = about.removeprefix("wish of the ")
    wish = next(row["text"] for row in state["messages"] if row["about"] == about)
    room = wish.partition(" wants the ")[2].partition(" in the ")[0]
    time, month, layout, part = TIMES[2], state["month"], rng.choice(LAYOUTS), rng.choice(PARTS)
    question = f"On which day of {month} does the {group} want the {room}?"
    day = hall.read(about, question)
    story.next_stage()
    story.open("Groups")
    member = hall.member(group)
    story.open("Prices")
    amount = hall.price(room, time)
    story.next_stage()
    story.open("Key board")
    key = hall.key(room, part)
    story.open("Bookings")
    story.act("scroll", "", "down")
    story.next_stage()
    story.open("Calendar")
    story.click("link", f"{month} {{day}}", day=day)
    story.open(f"Book {room} {time}")
    story.select("Group", group)
    story.type("Member number", member)
    story.select("Layout", layout)
    story.click("button", "Book room")
    number = after["numbers"].pop(0)
    fresh = new_booking(number, int(day.value), room, time, group, layout)
    after["bookings"].append(fresh | {"member": member.value})
    booked = hall.booked(number)
    story.next_stage()
    story.fetch("Messages")
    day = hall.read(about, question)
    story.next_stage()
    story.open("Calendar", "Invoices")
    story.type("Booking number", booked)
    story.type("Amount", amount)
    story.click("button", "Write invoice")
    bill = after["bills"].pop(0)
    billed = {"booking": number, "amount": amount.value, "day": fresh["day"], "number": bill}
    after["invoices"].append(billed)  # the day at that time: the booking is moved later
    cells = {"Amount": amount.value, "Booking": number, "Invoice": bill}
    invoice = story.learn(bill, f"invoice of {number}", **cells)
    hall.pick(booked)
    story.next_stage()
    story.fill("select", "New day", f"{month} {{day}}", day=day)
    story.click("button", "Move booking")
    moved = after["numbers"].pop(0)
    hall.booking(number).update(day=int(day.value), number=moved)
    booked = hall.booked(moved)
    story.next_stage()
    hall.reply(about, "Your invoice is {invoice}.", invoice=invoice)
    story.next_stage()
    story.open("Groups", "Key desk")
    story.type("Booking number", booked)
    story.select("Key", key)
    story.click("button", "Hand out key")
    after["handouts"].append({"booking": moved, "key": key.value})
    story.wishes += [
        f"Read the message with the {about}.",
        f"Look up the member number of the {group}, the price of the {room} for {time}, "
        f"and the key for the {part} of the {room}.",
        f"Book the {room} for the {group} in the {time} of the day that they want, layout: {layout}.",
        f"Fetch the new messages, and read the one with the {about} again.",
        "Write an invoice for the booking with that price as the amount.",
        f"Move the booking to the day that the {group} wants by then.",
        f'Reply to the message with the {about}: "Your invoice is NUMBER." with the number of the invoice.',
        f"Hand out the key for the {part} of the {room} for the booking under its new number.",
    ]
    return story.finish(APP, f"Work in the office of the {state['name']}:")


def rearranging(story: Story) -> WebTask:
    """Return a task with old bookings: two are set up, the alarm code changes between them, a third is cancelled."""
    hall, rng, state, after = _Hall(story), story.rng, story.state, story.after
    alarm_about, phone_about = (state["incoming"][place]["about"] for place in (1, 2))
    room, calling = alarm_about.removeprefix("alarm code of the "), phone_about.removeprefix("telephone of the ")
    there = [row for row in state["bookings"] if row["room"] == room and row["group"] != calling]
    rng.shuffle(there)
    first = there[0]
    second = next(row for row in there if row["group"] != first["group"])
    third = rng.choice([row for row in state["bookings"] if row["group"] == calling])
    layouts = [rng.choice([layout for layout in LAYOUTS if layout != row["layout"]]) for row in (first, second)]
    story.open("Groups", first["group"])
    number1 = hall.own(first["number"])
    story.open("Groups", second["group"])
    number2 = hall.own(second["number"])
    story.next_stage()
    alarm = hall.read(alarm_about)
    story.next_stage()
    story.open("Prices")
    fee = hall.price(third["room"], "cancellation")
    story.open("Groups", calling)
    number3 = hall.own(third["number"])
    story.next_stage()
    hall.pick(number1)
    setup = hall.set_up(number1, layouts[0], alarm)
    story.next_stage()
    story.fetch("Messages")
    alarm = hall.read(alarm_about)
    phone = hall.read(phone_about, f"What is the new telephone of the {calling}?")
    story.next_stage()
    hall.pick(number3)
    story.type("Cancellation fee", fee)
    story.click("button", "Cancel booking")
    note = after["credits"].pop(0)
    hall.booking(third["number"]).update(status="cancelled", fee=fee.value, credit=note)
    credit = story.see(f"Credit note of {number3.value}", note)
    story.next_stage()
    hall.pick(number2)
    hall.set_up(number2, layouts[1], alarm)
    story.next_stage()
    story.open("Groups", calling)
    story.type("Telephone", phone)
    story.click("button", "Save telephone")
    next(row for row in after["groups"] if row["name"] == calling)["phone"] = phone.value
    story.next_stage()
    hall.reply(
        phone_about, "Your credit note is {credit}; the first room has setup {setup}.", credit=credit, setup=setup
    )
    month = state["month"]
    story.wishes += [
        f"Look up the booking of the {first['group']} on {month} {first['day']} in the {first['room']} in the "
        f"{first['time']}, and that of the {second['group']} on {month} {second['day']} in the {second['room']} in the "
        f"{second['time']}.",
        f"Read the message with the {alarm_about}, and look up the cancellation price of the {third['room']}.",
        f"Look up the booking of the {calling} on {month} {third['day']} in the {third['room']} "
        f"in the {third['time']}.",
        f"Set up the first booking: layout {layouts[0]}, with the {alarm_about}.",
        f"Fetch the new messages; read those with the {alarm_about} and the {phone_about}.",
        f"Cancel the booking of the {calling} for that cancellation price.",
        f"Set up the second booking: layout {layouts[1]}, with the {alarm_about} as it is by then.",
        f"Save the new {phone_about} on the page of the group.",
        f'Reply to the message with the {phone_about}: "Your credit note is NUMBER; the first room has setup NUMBER." '
        "with the credit note of the cancelled booking and the setup number of the first booking.",
    ]
    return story.finish(APP, f"Work in the office of the {state['name']}:")
