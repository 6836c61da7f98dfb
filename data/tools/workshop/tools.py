"""The tools of the workshop: Python functions on its database."""

from __future__ import annotations

import hashlib
from typing import Any

from ..world import Json, Tool, ToolError

POLICY = """You answer the telephone of a bicycle workshop and work with its tools.
- Look up a customer before you change anything of the customer's, and change nothing of anybody else's.
- A repair can be moved or booked into a free slot only.
- An order can be redirected while it is open; a part can be returned once its order is delivered.
- Do what the customer asks for, nothing else, and tell the customer the codes that come of it."""


def _row(database: Json, table: str, key: Any) -> Json:
    row: Json | None = database[table].get(key)
    if row is None:
        raise ToolError(f"{table}: there is no {key!r}")
    return row


def new_code(prefix: str, *parts: Any) -> str:
    """Return a code that follows from what it is for."""
    digest = hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()
    return f"{prefix}{int(digest[:12], 16) % 90_000 + 10_000}"


def find_customer(database: Json, phone: str) -> Json:
    """Find a customer by telephone number."""
    for customer in database["customers"].values():
        if customer["phone"] == phone:
            return {"customer_id": customer["customer_id"], "name": customer["name"]}
    raise ToolError(f"nobody has the telephone number {phone!r}")


def get_customer(database: Json, customer_id: str) -> Json:
    """Return a customer with all bicycles, repairs and orders."""
    customer = _row(database, "customers", customer_id)

    def own(table: str) -> list[Json]:
        return [row for row in database[table].values() if row["customer_id"] == customer_id]

    return {
        **customer,
        "bicycles": [_without(row, "customer_id") for row in own("bicycles")],
        "repairs": [
            {**_part(row, "booking_id", "work", "status"), "bicycle": _bicycle(database, row["frame_number"])}
            for row in own("bookings")
        ],
        "orders": [
            {**_part(row, "order_id", "status"), "parts": ", ".join(item["part"] for item in row["items"])}
            for row in own("orders")
        ],
    }


def get_booking(database: Json, booking_id: str) -> Json:
    """Return a repair that is booked."""
    return _repair(database, _row(database, "bookings", booking_id))


def get_order(database: Json, order_id: str) -> Json:
    """Return an order with its items."""
    return dict(_row(database, "orders", order_id))


def find_parts(database: Json, model_code: str) -> list[Json]:
    """Return the parts that fit a model."""
    fitting = [_without(part, "fits") for part in database["parts"].values() if model_code in part["fits"]]
    if not fitting:
        raise ToolError(f"no part fits {model_code!r}")
    return fitting


def list_slots(database: Json, week: int) -> list[Json]:
    """Return the free slots of a week."""
    return [
        _without(slot, "week", "free") for slot in database["slots"].values() if slot["week"] == week and slot["free"]
    ]


def book_repair(database: Json, frame_number: str, slot_id: str, work: str) -> Json:
    """Book a repair into a free slot."""
    bicycle, slot = _row(database, "bicycles", frame_number), _free(database, slot_id)
    booking_id = new_code("B-", frame_number, slot_id, work)
    slot["free"] = False
    booking = {
        "booking_id": booking_id,
        "customer_id": bicycle["customer_id"],
        "frame_number": frame_number,
        "work": work,
        "status": "booked",
        "slot_id": slot_id,
        "pickup_code": new_code("", booking_id, slot_id),
    }
    database["bookings"][booking_id] = booking
    return _repair(database, booking)


def move_repair(database: Json, booking_id: str, slot_id: str) -> Json:
    """Move a repair into another free slot; its pickup code changes."""
    booking, slot = _row(database, "bookings", booking_id), _free(database, slot_id)
    database["slots"][booking["slot_id"]]["free"] = True
    slot["free"] = False
    booking |= {"slot_id": slot_id, "pickup_code": new_code("", booking_id, slot_id)}
    return _repair(database, booking)


def order_part(database: Json, customer_id: str, part_id: str) -> Json:
    """Order a part for a customer, to the customer's own street."""
    customer, part = _row(database, "customers", customer_id), _row(database, "parts", part_id)
    if not part["stock"]:
        raise ToolError(f"parts: {part_id!r} is not in stock")
    part["stock"] -= 1
    order_id = new_code("R-", customer_id, part_id, len(database["orders"]))
    item = {"item_id": new_code("I-", order_id), "part": part["part"], "part_id": part_id, "price": part["price"]}
    order = {"order_id": order_id, "customer_id": customer_id, "status": "open", "street": customer["street"]}
    database["orders"][order_id] = {**order, "delivery_code": new_code("", order_id), "items": [item]}
    return dict(database["orders"][order_id])


def redirect_order(database: Json, order_id: str, street: str) -> Json:
    """Send an open order to another street; its delivery code changes."""
    order = _row(database, "orders", order_id)
    if order["status"] != "open":
        raise ToolError(f"orders: {order_id!r} is {order['status']}, not open")
    order |= {"street": street, "delivery_code": new_code("", order_id, street)}
    return _without(order, "items")


def return_part(database: Json, order_id: str, item_id: str, reason: str) -> Json:
    """Take a delivered part back; the label goes onto the parcel."""
    order = _row(database, "orders", order_id)
    if order["status"] != "delivered":
        raise ToolError(f"orders: {order_id!r} is {order['status']}, not delivered")
    for item in order["items"]:
        if item["item_id"] == item_id:
            item |= {"returned_for": reason, "return_label": new_code("L-", order_id, item_id)}
            return {"order_id": order_id, **item}
    raise ToolError(f"orders: {order_id!r} has no item {item_id!r}")


def open_message(database: Json, customer_id: str) -> str:
    """Open the courier's text message to the customer."""
    message = _row(database, "messages", customer_id)
    message["opened"] = True
    return str(message["text"])


def repair_is_in(database: Json, booking_id: str, slot_id: str) -> bool:
    """Tell whether a repair is booked into a slot."""
    booking = database["bookings"].get(booking_id)
    return booking is not None and booking["slot_id"] == slot_id


def part_is_returned(database: Json, order_id: str, item_id: str) -> bool:
    """Tell whether a part has a return label."""
    items = database["orders"].get(order_id, {"items": []})["items"]
    return any(item["item_id"] == item_id and "return_label" in item for item in items)


def order_goes_to(database: Json, order_id: str, street: str) -> bool:
    """Tell whether an order is sent to a street."""
    order = database["orders"].get(order_id)
    return order is not None and order["street"] == street


def _free(database: Json, slot_id: str) -> Json:
    slot = _row(database, "slots", slot_id)
    if not slot["free"]:
        raise ToolError(f"slots: {slot_id!r} is taken")
    return slot


def _bicycle(database: Json, frame_number: str) -> str:
    bicycle = database["bicycles"][frame_number]
    return f"{bicycle['colour']} {bicycle['model']}"


def _repair(database: Json, booking: Json) -> Json:
    slot = database["slots"][booking["slot_id"]]
    where = {"bicycle": _bicycle(database, booking["frame_number"]), "day": slot["day"], "hour": slot["hour"]}
    return {**_without(booking, "customer_id", "frame_number"), **where, "mechanic": slot["mechanic"]}


def _part(row: Json, *keys: str) -> Json:
    return {key: row[key] for key in keys}


def _without(row: Json, *keys: str) -> Json:
    return {key: value for key, value in row.items() if key not in keys}


def _tool(run: Any, *, writes: bool = False, **arguments: str) -> Tool:
    """Make a tool of a function; its arguments are given with what they are."""
    properties = {
        name: {"type": "integer" if name == "week" else "string", "description": what}
        for name, what in arguments.items()
    }
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(arguments),
        "additionalProperties": False,
    }
    return Tool(run.__name__, run.__doc__, schema, run, writes)


_BOOKING, _ORDER, _SLOT = "the repair, such as B-10000", "the order, such as R-10000", "a free slot, such as S-100"
_TOOLS = (
    _tool(find_customer, phone="the telephone number, such as 0491-555-0100"),
    _tool(get_customer, customer_id="the customer, such as C-10000"),
    _tool(get_booking, booking_id=_BOOKING),
    _tool(get_order, order_id=_ORDER),
    _tool(find_parts, model_code="the model of the bicycle, such as HRN-10"),
    _tool(list_slots, week="the number of the week"),
    _tool(book_repair, writes=True, frame_number="the bicycle, such as F-100000", slot_id=_SLOT, work="what is done"),
    _tool(move_repair, writes=True, booking_id=_BOOKING, slot_id=_SLOT),
    _tool(order_part, writes=True, customer_id="the customer", part_id="the part, such as P-1000"),
    _tool(redirect_order, writes=True, order_id=_ORDER, street="the street with the number"),
    _tool(return_part, writes=True, order_id=_ORDER, item_id="the item, such as I-10000", reason="why"),
)
TOOLS = {tool.name: tool for tool in _TOOLS}
USER_TOOLS = {"open_message": _tool(open_message, writes=True, customer_id="to whom it was sent")}
ASSERTIONS = {function.__name__: function for function in (repair_is_in, part_is_returned, order_goes_to)}
