// What the apps share: elements, tables with pages, forms, the state on the server, and pages by hash.
// A page reads the state and returns elements; a change goes to the server first and is shown afterwards.

let state = null;
let pages = [];
let said = "";
let waiting = 0;
let last = Promise.resolve();

/** Return an element; a function among the attributes is a listener. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

export const link = (text, to, attributes = {}) => el("a", { href: `#/${to}`, ...attributes }, text);

/** Return a table; a cell is a text or an element, and the first one heads its row. There may be no columns' titles. */
export function table(caption, columns, rows, empty = "Nothing here.") {
  if (!rows.length) return el("p", { class: "empty" }, empty);
  const head = columns.length && el("thead", {}, el("tr", {}, columns.map((column) => el("th", { scope: "col" }, column))));
  const body = rows.map((cells) =>
    el("tr", {}, cells.map((cell, place) => (place ? el("td", {}, cell) : el("th", { scope: "row" }, cell)))),
  );
  return el("table", {}, el("caption", {}, caption), head || null, el("tbody", {}, body));
}

/** Return one page of a table, and links to the others. */
export function paged(caption, columns, rows, { page, size, route }) {
  const count = Math.max(1, Math.ceil(rows.length / size));
  const now = Math.min(count, Math.max(1, Number(page) || 1));
  const shown = rows.slice((now - 1) * size, now * size);
  return [
    table(`${caption}, page ${now} of ${count}`, columns, shown),
    el(
      "nav",
      { class: "pages", "aria-label": "Pages" },
      now > 1 && link("Previous page", `${route}/${now - 1}`),
      now < count && link("Next page", `${route}/${now + 1}`),
    ),
  ];
}

/** Return a table of what is known about one thing, each row a label and a value. */
export const facts = (caption, rows) => table(caption, [], rows);

/** Return the page of what is not there. */
export const missing = (what, name) => ({ title: `No such ${what}`, body: el("p", { class: "empty" }, `There is no ${what} ${name}.`) });

/** Return the first page of an app: what is known of today, and the rules of the house. */
export const home = (title, today, rules) => ({
  title,
  body: [facts("Today", today), facts("House rules", rules.map((text, place) => [`Rule ${place + 1}`, text]))],
});

/** Return the row of this number, or throw a text that says that there is none. */
export function known(rows, what, number) {
  const row = rows.find((one) => one.number === number);
  if (!row) throw `There is no ${what} ${number}.`;
  return row;
}

/** Return a form. A field is {name, label}, with `options` for a choice; `submit(values)` is called with trimmed texts. */
export function form(title, fields, button, submit) {
  const rows = fields.map(({ name, label, options, area }) => {
    const id = `${title}-${name}`.toLowerCase().replace(/[^a-z]+/g, "-");
    const choice = options && [el("option", { value: "" }, "Choose"), ...options.map((text) => el("option", {}, text))];
    const input = options
      ? el("select", { id, name }, choice)
      : el(area ? "textarea" : "input", { id, name, autocomplete: "off", ...(area ? { rows: 3 } : { type: "text" }) });
    return el("div", { class: "field" }, el("label", { for: id }, label), input);
  });
  const onSubmit = (event) => {
    event.preventDefault();
    const values = Object.fromEntries([...new FormData(event.target)].map(([name, text]) => [name, text.trim()]));
    const empty = fields.filter(({ name }) => !values[name]).map(({ label }) => label);
    if (empty.length) say(`Fill in: ${empty.join(", ")}.`);
    else submit(values);
  };
  return el(
    "form",
    { "aria-label": title, submit: onSubmit, novalidate: true },
    el("h2", {}, title),
    rows,
    el("button", { type: "submit" }, button),
  );
}

export const button = (text, click) => el("button", { type: "button", click }, text);

/** Tell the user something, until the next page. */
export function say(text) {
  said = text;
  const status = document.querySelector("[role=status]");
  if (status) status.textContent = text;
}

/** Open a page at once: an event would come later, when somebody may have looked already. */
export function go(route) {
  if (here() !== route) history.pushState(null, "", `#/${route}`);
  show();
  scrollTo(0, 0);
}

/**
 * Change the state: `mutate` gets a copy and returns what to tell the user, alone or with the route of the page to open,
 * or throws a text that says why not. Changes wait for each other; the body is busy until the last one is saved.
 */
export function change(mutate) {
  waiting += 1;
  busy();
  const done = last.then(() => save(mutate)).finally(() => {
    waiting -= 1;
    busy();
  });
  last = done.catch(() => {}); // what failed is no reason to leave out what comes after it
}

async function save(mutate) {
  const next = structuredClone(state);
  let text, route;
  try {
    [text, route] = [mutate(next)].flat();
  } catch (problem) {
    if (typeof problem !== "string") throw problem;
    say(problem);
    return;
  }
  try {
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch("/api/state", { method: "PUT", headers, body: JSON.stringify(next) });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    state = next;
    said = text;
  } catch (error) {
    said = `Not saved: ${error.message}.`;
    route = undefined;
  }
  if (route === undefined) show();
  else go(route);
}

/** Take in what has come in since: a newer message takes the place of the older one about the same, and may change data. */
export function fetchIncoming(next) {
  const count = next.incoming.length;
  for (const { sets, ...message } of next.incoming) {
    next.messages = [message, ...next.messages.filter(({ about }) => about !== message.about)];
    for (const { at, is } of sets) {
      const place = at.slice(0, -1).reduce((value, key) => value[key], next);
      place[at.at(-1)] = is;
    }
  }
  next.incoming = [];
  return count;
}

const busy = () => document.body.setAttribute("aria-busy", String(waiting > 0));

function here() {
  const route = location.hash.replace(/^#\/?/, "");
  try {
    return decodeURIComponent(route);
  } catch {
    return route; // somebody has typed a percent sign
  }
}

function show() {
  const parts = here().split("/");
  const page = pages.find(({ path }) => path === parts[0]) ?? pages[0];
  const { title, body } = page.show(state, ...parts.slice(1));
  const items = pages
    .filter(({ name }) => name)
    .map(({ name, path }) => el("li", {}, link(name, path, { "aria-current": path === (page.under ?? page.path) ? "page" : null })));
  document.title = `${title} - ${state.name}`;
  document.body.replaceChildren(
    el("header", {}, el("p", { class: "brand" }, state.name), el("nav", { "aria-label": "Main" }, el("ul", {}, items))),
    el("main", {}, el("h1", {}, title), el("p", { role: "status" }, said), body),
  );
  said = "";
}

async function load() {
  waiting += 1;
  busy();
  const answer = await fetch("/api/state");
  if (answer.ok) {
    state = await answer.json();
    show();
  } else {
    document.body.replaceChildren(el("main", {}, el("h1", {}, "No data yet"), el("p", {}, "Put a state first.")));
  }
  waiting -= 1;
  busy();
}

/** Run an app: `list` has its pages, {path, name, show(state, ...parts) -> {title, body}}; without a name,
 * it is not in the menu, but `under` another one. */
export function run(list) {
  pages = list;
  addEventListener("hashchange", () => state && show());
  document.addEventListener("click", (event) => {
    const to = event.target.closest?.("a[href^='#/']")?.getAttribute("href");
    if (!to || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(to.slice(2));
  });
  new EventSource("/api/events").addEventListener("message", ({ data }) => {
    if (data === "reset") {
      said = "";
      history.replaceState(null, "", "#/");
      load();
    }
  });
  load();
}
