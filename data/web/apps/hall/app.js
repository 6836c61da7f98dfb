// A community hall: a calendar, bookings, groups, messages with replies, prices, a key board, invoices.

import { button, change, facts, fetchIncoming, form, home, known, link, missing, paged, run, table } from "/shared/kit.js";

const PAGE = 10;
const WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const LAYOUTS = ["rows", "circle", "long table", "empty"];

const find = (state, number) => state.bookings.find((booking) => booking.number === number);
const dayOf = (state, day) => `${state.month} ${day}`;
const byNumber = (one, other) => (one.number < other.number ? -1 : 1);
const isActive = ({ status }) => status === "booked";

function office(state) {
  const today = [
    ["Active bookings", String(state.bookings.filter(isActive).length)],
    ["Invoices written", String(state.invoices.length)],
    ["Caretaker", state.caretaker],
  ];
  return home("Office", today, state.rules);
}

function calendar(state, day) {
  if (day) return dayPage(state, Number(day));
  const weeks = [0, 7, 14, 21].map((first) => [
    `Week ${state.week + first / 7}`,
    ...WEEKDAYS.map((_, place) => link(dayOf(state, first + place + 1), `calendar/${first + place + 1}`)),
  ]);
  const month = table(`Four weeks of ${state.month}`, ["Week", ...WEEKDAYS], weeks);
  month.classList.add("month");
  return { title: "Calendar", body: month };
}

function dayPage(state, day) {
  const isTaken = (room, time) =>
    state.bookings.some((one) => isActive(one) && one.day === day && one.room === room && one.time === time);
  const rows = state.rooms.flatMap((room) =>
    state.times.map((time) => [
      room,
      time,
      isTaken(room, time) ? "taken" : link(`Book ${room} ${time}`, `book/${day}/${room}/${time}`),
    ]),
  );
  return { title: dayOf(state, day), body: table(`Rooms on ${dayOf(state, day)}`, ["Room", "Time", "Booking"], rows) };
}

function book(state, day, room, time) {
  const fields = [
    { name: "group", label: "Group", options: state.groups.map(({ name }) => name) },
    { name: "member", label: "Member number" },
    { name: "layout", label: "Layout", options: LAYOUTS },
  ];
  const submit = (values) =>
    change((next) => {
      const fresh = { number: next.numbers.shift(), status: "booked", alarm: "", setup: "", fee: "", credit: "" };
      next.bookings.push({ day: Number(day), room, time, ...values, ...fresh });
      return ["The room was booked.", `booking/${fresh.number}`];
    });
  const chosen = facts("Chosen", [
    ["Day", dayOf(state, day)],
    ["Room", room],
    ["Time", time],
  ]);
  return { title: "Book a room", body: [chosen, form("Booking", fields, "Book room", submit)] };
}

function bookings(state, page) {
  const rows = [...state.bookings].sort(byNumber).map((one) => [link(`Booking ${one.number}`, `booking/${one.number}`), one.layout, one.status]);
  const columns = ["Booking", "Layout", "Status"];
  return { title: "Bookings", body: paged("Bookings", columns, rows, { page, size: PAGE, route: "bookings" }) };
}

function booking(state, number) {
  const now = find(state, number);
  if (!now) return missing("booking", number);
  const rows = [
    ["Status", now.status],
    ["Day", dayOf(state, now.day)],
    ["Layout", now.layout],
    ["Alarm code", now.alarm],
    [`Setup number of ${number}`, now.setup],
    ["Cancellation fee", now.fee],
    [`Credit note of ${number}`, now.credit],
  ].filter(([, value]) => value);
  const shown = [facts("Confirmation", [[`Booking number of the ${now.group} for the ${now.room}`, number]]), facts("Details", rows)];
  return { title: `Booking ${number}`, body: isActive(now) ? [...shown, ...managing(state, number)] : shown };
}

function managing(state, number) {
  const mine = (next) => known(next.bookings, "booking", number);
  const prepare = (values) =>
    change((next) => {
      Object.assign(mine(next), values, { setup: next.setups.shift() });
      return "The room will be set up.";
    });
  const move = ({ day }) =>
    change((next) => {
      const moved = { day: Number(day.split(" ")[1]), number: next.numbers.shift() };
      Object.assign(mine(next), moved);
      return ["The booking was moved and has a new number.", `booking/${moved.number}`];
    });
  const cancel = (values) =>
    change((next) => {
      Object.assign(mine(next), values, { status: "cancelled", credit: next.credits.shift() });
      return "The booking was cancelled.";
    });
  const days = Array.from({ length: 28 }, (_, place) => dayOf(state, place + 1));
  const setup = [
    { name: "layout", label: "Layout", options: LAYOUTS },
    { name: "alarm", label: "Alarm code" },
  ];
  return [
    form("Set up", setup, "Save setup", prepare),
    form("Move", [{ name: "day", label: "New day", options: days }], "Move booking", move),
    form("Cancel", [{ name: "fee", label: "Cancellation fee" }], "Cancel booking", cancel),
  ];
}

function groups(state) {
  const rows = state.groups.map(({ contact, name, member }) => [contact, link(name, `group/${name}`), `Member ${member}`]);
  return { title: "Groups", body: table("Groups", ["Contact", "Group", "Membership"], rows) };
}

function group(state, name) {
  const now = state.groups.find((one) => one.name === name);
  if (!now) return missing("group", name);
  const rows = state.bookings
    .filter((one) => isActive(one) && one.group === name)
    .map((one) => [dayOf(state, one.day), one.room, one.time, one.number]);
  const save = form("Contact", [{ name: "phone", label: "Telephone" }], "Save telephone", ({ phone }) =>
    change((next) => {
      next.groups.find((one) => one.name === name).phone = phone;
      return "The telephone was saved.";
    }),
  );
  const details = facts("Details", [
    ["Contact", now.contact],
    ["Telephone", now.phone],
  ]);
  const booked = table(`Bookings of the ${name}`, ["Day", "Room", "Time", "Number"], rows);
  return { title: name, body: [details, booked, save] };
}

function messages(state) {
  const rows = state.messages.map(({ number, from, subject }) => [
    link(`Message ${number}`, `message/${number}`),
    from,
    subject,
  ]);
  const fetchAll = button("Fetch new messages", () => change((next) => `New messages: ${fetchIncoming(next)}.`));
  return { title: "Messages", body: [fetchAll, table("Messages, the newest first", ["Message", "From", "Subject"], rows)] };
}

function message(state, number) {
  const now = state.messages.find((one) => String(one.number) === number);
  if (!now) return missing("message", number);
  const shown = facts(`Message ${number}`, [
    ["From", now.from],
    ["Subject", now.subject],
    ["Message", now.text],
  ]);
  const answer = form("Answer", [{ name: "text", label: "Reply", area: true }], "Send reply", ({ text }) =>
    change((next) => {
      next.replies.push({ to: now.number, text });
      return "The reply was sent.";
    }),
  );
  return { title: `Message ${number}`, body: [shown, answer] };
}

function prices(state) {
  const rows = state.prices.map(({ room, kind, price }) => [room, kind, price]);
  return { title: "Prices", body: table("Prices", ["Place", "For", "Price"], rows) };
}

function board(state) {
  const rows = state.keys.map(({ room, part, key }) => [room, part, key]);
  return { title: "Key board", body: table("Where each key belongs", ["Place", "Part", "Key"], rows) };
}

function desk(state) {
  const fields = [
    { name: "booking", label: "Booking number" },
    { name: "key", label: "Key", options: state.keys.map(({ key }) => key).sort() },
  ];
  const give = form("Hand out a key", fields, "Hand out key", (values) =>
    change((next) => {
      known(next.bookings, "booking", values.booking);
      next.handouts.push(values);
      return "The key was handed out.";
    }),
  );
  const rows = state.handouts.map((one) => [one.booking, one.key]);
  return { title: "Key desk", body: [give, table("Handed out", ["Booking", "Key"], rows)] };
}

function invoices(state) {
  const fields = [
    { name: "booking", label: "Booking number" },
    { name: "amount", label: "Amount" },
  ];
  const write = form("Write an invoice", fields, "Write invoice", (values) =>
    change((next) => {
      const { day } = known(next.bookings, "booking", values.booking);
      next.invoices.push({ ...values, day, number: next.bills.shift() });
      return "The invoice was written.";
    }),
  );
  const rows = state.invoices.map(({ amount, booking, number }) => [amount, booking, number]);
  return { title: "Invoices", body: [write, table("Written", ["Amount", "Booking", "Invoice"], rows)] };
}

run([
  { path: "", name: "Office", show: office },
  { path: "calendar", name: "Calendar", show: calendar },
  { path: "book", under: "calendar", show: book },
  { path: "bookings", name: "Bookings", show: bookings },
  { path: "booking", under: "bookings", show: booking },
  { path: "groups", name: "Groups", show: groups },
  { path: "group", under: "groups", show: group },
  { path: "messages", name: "Messages", show: messages },
  { path: "message", under: "messages", show: message },
  { path: "prices", name: "Prices", show: prices },
  { path: "board", name: "Key board", show: board },
  { path: "desk", name: "Key desk", show: desk },
  { path: "invoices", name: "Invoices", show: invoices },
]);
