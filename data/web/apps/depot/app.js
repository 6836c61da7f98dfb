// A parcel depot: arrivals by recipient, parcels by number, notices, tariff, shelves, rounds, dispatch, day sheet.

import { button, change, facts, fetchIncoming, form, go, home, known, link, missing, paged, run, say, table } from "/shared/kit.js";

const PAGE = 10;
const REASONS = ["refused", "address unknown", "not collected", "damaged"];

const find = (state, number) => state.parcels.find((parcel) => parcel.number === number);

function desk(state) {
  const stored = state.parcels.filter(({ status }) => status === "stored").length;
  const today = [
    ["Parcels in the depot", String(stored)],
    ["Dispatched today", String(state.dispatches.length)],
    ["Person in charge", state.chief],
  ];
  return home("Desk", today, state.rules);
}

function arrivals(state, page) {
  const rows = state.arrivals.map(({ recipient, sender, number }) => [recipient, sender, number]);
  const shown = paged("Arrivals", ["Recipient", "Sender", "Parcel"], rows, { page, size: PAGE, route: "arrivals" });
  return { title: "Arrivals", body: shown };
}

function parcels(state, page) {
  const search = form("Find a parcel", [{ name: "number", label: "Parcel number" }], "Find parcel", ({ number }) => {
    if (find(state, number)) go(`parcel/${number}`);
    else say(`There is no parcel ${number}.`);
  });
  const rows = state.parcels.map((parcel) => [
    link(`Parcel ${parcel.number}`, `parcel/${parcel.number}`),
    parcel.size,
    parcel.status,
  ]);
  const list = paged("Parcels", ["Parcel", "Size", "Status"], rows, { page, size: PAGE, route: "parcels" });
  return { title: "Parcels", body: [search, ...list] };
}

function parcel(state, number) {
  const now = find(state, number);
  if (!now) return missing("parcel", number);
  const rows = [
    ["Size", now.size],
    ["Status", now.status],
    ["Shelf", now.shelf],
    [`Seal of ${number}`, now.seal],
    ["Fee", now.fee],
    ["Collection code", now.code],
    [`Receipt of ${number}`, now.receipt],
    ["Reason for sending back", now.reason],
    [`Label for sending back ${number}`, now.label],
  ].filter(([, value]) => value);
  const shown = facts(`Parcel ${number}`, rows);
  return { title: `Parcel ${number}`, body: now.status === "stored" ? [shown, ...handling(number)] : [shown] };
}

function handling(number) {
  const act = (mutate) => (values) => change((next) => mutate(known(next.parcels, "parcel", number), values, next));
  const move = act((parcel, { shelf }) => {
    parcel.shelf = shelf;
    return "The parcel was moved.";
  });
  const charge = act((parcel, { fee }) => {
    parcel.fee = fee;
    return "The fee was charged.";
  });
  const handOver = act((parcel, { code }, next) => {
    Object.assign(parcel, { status: "handed over", code, receipt: next.receipts.shift() });
    return "The parcel was handed over.";
  });
  const sendBack = act((parcel, { reason, fee }, next) => {
    Object.assign(parcel, { status: "sent back", reason, fee, label: next.labels.shift() });
    return "The parcel was sent back.";
  });
  const back = [
    { name: "reason", label: "Reason", options: REASONS },
    { name: "fee", label: "Handling fee" },
  ];
  return [
    form("Move", [{ name: "shelf", label: "New shelf" }], "Move parcel", move),
    form("Charge", [{ name: "fee", label: "Fee" }], "Charge fee", charge),
    form("Hand over", [{ name: "code", label: "Collection code" }], "Hand over parcel", handOver),
    form("Send back", back, "Send parcel back", sendBack),
  ];
}

function notices(state) {
  const rows = state.messages.map(({ from, text }) => [from, text]);
  const fetchAll = button("Fetch new notices", () => change((next) => `New notices: ${fetchIncoming(next)}.`));
  return { title: "Notices", body: [fetchAll, table("Notices, the newest first", ["From", "Notice"], rows)] };
}

function tariff(state) {
  const rows = state.fees.map(({ size, district, fee }) => [`${size} parcel`, district, fee]);
  return { title: "Tariff", body: table("Fees", ["Size", "District", "Fee"], rows) };
}

function shelves(state) {
  const rows = state.shelves.map(({ goods, aisle, shelf }) => [`${goods} goods`, `aisle ${aisle}`, shelf]);
  return { title: "Shelves", body: table("Free shelves", ["Kind", "Place", "Shelf"], rows) };
}

function rounds(state) {
  const rows = state.rounds.map(({ driver, district, van }) => [driver, district, `Van ${van}`]);
  return { title: "Rounds", body: table("Rounds of today", ["Driver", "District", "Vehicle"], rows) };
}

function dispatch(state) {
  const fields = [
    { name: "number", label: "Parcel number" },
    { name: "district", label: "District", options: state.rounds.map(({ district }) => district) },
    { name: "van", label: "Vehicle" },
    { name: "seal", label: "Seal" },
  ];
  const send = form("Send out", fields, "Dispatch parcel", (values) =>
    change((next) => {
      const parcel = known(next.parcels, "parcel", values.number);
      if (parcel.status !== "stored") throw `Parcel ${values.number} is not in the depot.`;
      parcel.status = "dispatched";
      next.dispatches.push({ ...values, trip: next.trips.shift() });
      return "The parcel was dispatched.";
    }),
  );
  const rows = state.dispatches.map(({ district, van, number, trip }) => [district, van, number, trip]);
  return { title: "Dispatch", body: [send, table("Dispatched today", ["District", "Vehicle", "Parcel", "Trip"], rows)] };
}

function sheet(state) {
  const fields = [
    { name: "what", label: "Entry", options: ["Receipt", "Trip", "Label"] },
    { name: "number", label: "Number" },
  ];
  const add = form("New entry", fields, "Add entry", (entry) =>
    change((next) => {
      next.sheet.push(entry);
      return "The entry was added.";
    }),
  );
  const rows = state.sheet.map(({ what, number }) => [what, number]);
  return { title: "Day sheet", body: [add, table("Entries", ["Entry", "Number"], rows)] };
}

run([
  { path: "", name: "Desk", show: desk },
  { path: "arrivals", name: "Arrivals", show: arrivals },
  { path: "parcels", name: "Parcels", show: parcels },
  { path: "parcel", under: "parcels", show: parcel },
  { path: "notices", name: "Notices", show: notices },
  { path: "tariff", name: "Tariff", show: tariff },
  { path: "shelves", name: "Shelves", show: shelves },
  { path: "rounds", name: "Rounds", show: rounds },
  { path: "dispatch", name: "Dispatch", show: dispatch },
  { path: "sheet", name: "Day sheet", show: sheet },
]);
