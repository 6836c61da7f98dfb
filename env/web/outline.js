// What a page shows as lines of text, with its interactive elements numbered. It changes nothing in the page.
// asked.element: return the element of this number; asked.role and asked.name: the elements that are called so.
(asked) => {
  const MOST_NAME = 200;
  const MOST_OPTIONS = 40;
  const ROLES = new Set(
    ("button link checkbox radio switch tab option menuitem menuitemcheckbox menuitemradio textbox searchbox combobox " +
      "listbox slider spinbutton treeitem").split(" "),
  );
  const LEFT_OUT = new Set("SCRIPT STYLE NOSCRIPT TEMPLATE HEAD DATALIST OPTION CANVAS VIDEO AUDIO OBJECT".split(" "));
  const BUTTONS = new Set(["button", "submit", "reset", "image", "file", "color"]);
  const TICKED = new Set("checkbox radio switch menuitemcheckbox menuitemradio".split(" "));
  const FIELDS = new Set("textbox searchbox spinbutton slider".split(" "));
  const found = [];
  const lines = [];
  let line = [];
  let isInRow = false;

  // what can be neither sent nor stored is half a character
  // begins the number of an element in the place of its bracket, so that no text of a page can look like one
  const NUMBER = "\ufdd0";
  const numbered = () => `${NUMBER}${found.length}] `;
  const squeeze = (text) => joined(text.replaceAll(NUMBER, "["));
  const joined = (text) => text.replace(/\p{Surrogate}/gu, "?").replace(/\s+/gu, " ").trim();
  const cut = (text, most = MOST_NAME) => {
    const characters = [...text];
    return characters.length > most ? `${characters.slice(0, most - 1).join("")}…` : text;
  };
  const flush = () => {
    const text = joined(line.join(""));
    if (text) lines.push(text);
    line = [];
  };
  const block = (text) => {
    flush();
    lines.push(text);
  };

  const styleOf = (element) => element.ownerDocument.defaultView.getComputedStyle(element);
  const isThere = (element) =>
    element.getAttribute("aria-hidden") !== "true" &&
    !element.inert &&
    (styleOf(element).display === "contents" || element.checkVisibility());
  const isSeen = (element) => styleOf(element).visibility === "visible";
  const insideOf = (node) => {
    if (node.nodeName === "SLOT" && node.assignedNodes().length) return [...node.assignedNodes()];
    return [...(node.shadowRoot ?? node).childNodes];
  };

  const roleOf = (element) => {
    const given = element.getAttribute("role");
    if (given) return given.trim().split(/\s+/)[0];
    const type = (element.getAttribute("type") ?? "").toLowerCase();
    switch (element.tagName) {
      case "A":
        return element.hasAttribute("href") ? "link" : "";
      case "BUTTON":
      case "SUMMARY":
        return "button";
      case "SELECT":
        return element.multiple || element.size > 1 ? "listbox" : "combobox";
      case "TEXTAREA":
        return "textbox";
      case "INPUT":
        if (BUTTONS.has(type)) return "button";
        if (type === "checkbox" || type === "radio") return type;
        if (type === "hidden") return "";
        return { range: "slider", number: "spinbutton", search: "searchbox" }[type] ?? "textbox";
      default:
        return element.isContentEditable && !element.parentElement?.isContentEditable ? "textbox" : "";
    }
  };

  // the words that an element shows, or that stand for it
  const wordsOf = (node, own = true) => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.nodeType !== Node.ELEMENT_NODE || LEFT_OUT.has(node.tagName)) return "";
    if (!own) {
      if (!isThere(node)) return "";
      const label = node.getAttribute("aria-label");
      if (label) return ` ${label} `;
      if (node.tagName === "IMG") return ` ${node.alt} `;
      if ("INPUT SELECT TEXTAREA".includes(node.tagName)) return "";
      if (node.tagName === "svg") return ` ${node.querySelector("title")?.textContent ?? ""} `;
    }
    const text = (own || isSeen(node) ? insideOf(node) : [...node.children]).map((part) => wordsOf(part, false)).join("");
    return own || styleOf(node).display.startsWith("inline") ? text : ` ${text} `;
  };

  const nameOf = (element, role) => {
    const by = (element.getAttribute("aria-labelledby") ?? "").split(/\s+/).filter(Boolean);
    const labels = by.map((id) => element.getRootNode().getElementById?.(id)).filter(Boolean);
    const native = [...(element.labels ?? [])].map((label) => wordsOf(label)).join(" ");
    const isField = FIELDS.has(role) || role === "combobox" || role === "listbox";
    const isInput = element.tagName === "INPUT";
    const type = isInput ? element.type : "";
    const inner = isInput || isField ? "" : wordsOf(element);
    const value = isInput && BUTTONS.has(type) ? element.value || (type === "submit" ? "Submit" : element.alt) : "";
    const names = [
      labels.map((label) => wordsOf(label)).join(" "),
      element.getAttribute("aria-label"),
      native,
      value,
      inner,
      element.getAttribute("title"),
      element.getAttribute("placeholder"),
      element.getAttribute("alt"),
    ];
    return cut(names.map((name) => squeeze(name ?? "")).find(Boolean) ?? "");
  };

  const isOff = (element) => element.matches(":disabled") || element.getAttribute("aria-disabled") === "true";

  const statesOf = (element, role) => {
    const states = [];
    const aria = (name) => element.getAttribute(`aria-${name}`);
    if (TICKED.has(role)) {
      const ticked = element.tagName === "INPUT" ? (element.indeterminate ? "mixed" : element.checked) : aria("checked");
      states.push(String(ticked) === "mixed" ? "partly checked" : String(ticked) === "true" ? "checked" : "not checked");
    }
    if (aria("pressed") === "true") states.push("pressed");
    if (aria("selected") === "true") states.push("selected");
    if (aria("current") && aria("current") !== "false") states.push("current");
    if (aria("expanded")) states.push(aria("expanded") === "true" ? "open" : "closed");
    if (element.tagName === "SUMMARY") states.push(element.parentElement.open ? "open" : "closed");
    if (element.readOnly || aria("readonly") === "true") states.push("read only");
    if (aria("invalid") === "true") states.push("invalid");
    if (isOff(element)) states.push("disabled");
    return states.length ? ` (${states.join(", ")})` : "";
  };

  const valueOf = (element, role) => {
    if (element.tagName === "SELECT") {
      const texts = [...element.options].map((option) => squeeze(option.label || option.text));
      const chosen = [...element.selectedOptions].map((option) => `"${squeeze(option.label || option.text)}"`).join(", ");
      const more = texts.length > MOST_OPTIONS ? ` and ${texts.length - MOST_OPTIONS} more` : "";
      return ` = ${chosen || "nothing"} of ${texts.slice(0, MOST_OPTIONS).map((text) => `"${text}"`).join(", ")}${more}`;
    }
    if (!FIELDS.has(role) && !(role === "combobox" && element.tagName === "INPUT")) return "";
    const value = "value" in element ? element.value : wordsOf(element);
    if (!value) return "";
    return ` = "${element.type === "password" ? "•".repeat(value.length) : cut(squeeze(value), 2000)}"`;
  };

  const isClickable = (element) => {
    if (element.tagName === "LABEL" || "HTML BODY IFRAME".includes(element.tagName)) return false;
    if (element.hasAttribute("onclick")) return true;
    const parent = element.parentElement;
    if (styleOf(element).cursor !== "pointer" || !parent || element.namespaceURI.endsWith("svg")) return false;
    return styleOf(parent).cursor !== "pointer" && !parent.closest("button, a[href], label");
  };

  const hasInner = (element) =>
    [...element.querySelectorAll("*")].some((inner) => isThere(inner) && (ROLES.has(roleOf(inner)) || isClickable(inner)));

  const token = (element, role, name, of = element) => {
    const isField = FIELDS.has(role) || TICKED.has(role) || role === "combobox" || role === "listbox";
    if (isField && !isInRow) flush();
    found.push({ element, role, name });
    const called = name ? ` "${name}"` : "";
    line.push(` ${numbered()}${role}${called}${valueOf(of, role)}${statesOf(of, role)} `);
    if (isField && !isInRow) flush();
  };

  // true where nothing of it is left to show
  const interact = (element) => {
    const control = element.tagName === "LABEL" ? element.control : null;
    if (control && control.type !== "hidden") {
      if (isThere(control) && isSeen(control)) {
        if (element.contains(control)) walk(control);
      } else token(element, roleOf(control), nameOf(control, roleOf(control)), control);
      return true;
    }
    const role = roleOf(element);
    if (ROLES.has(role)) {
      const isWhole = !["tab", "option", "treeitem", "menuitem", "listbox"].includes(role) || !hasInner(element);
      token(element, role, nameOf(element, role));
      return isWhole || element.tagName === "SELECT";
    }
    if (!isClickable(element)) return false;
    const isWhole = !hasInner(element);
    found.push({ element, role: "clickable", name: nameOf(element, "") });
    line.push(` ${numbered()}clickable${isWhole ? ` "${found.at(-1).name}"` : ":"} `);
    return isWhole;
  };

  const isTable = (element) =>
    ["table", "grid", "treegrid"].includes(element.getAttribute("role")) ||
    (element.tagName === "TABLE" && !element.hasAttribute("role") && element.querySelector("th, caption") !== null);
  const isRow = (element) => element.getAttribute("role") === "row" || element.tagName === "TR";
  const CELLS = "td, th, [role=cell], [role=gridcell], [role=columnheader], [role=rowheader]";
  const isHead = (cell) =>
    cell.getAttribute("role") === "columnheader" || (cell.tagName === "TH" && cell.scope !== "row" && !cell.getAttribute("role"));
  const innermost = (part, table) => part.parentElement.closest("table, [role=table], [role=grid], [role=treegrid]") === table;

  const showTable = (table) => {
    const name = squeeze(table.getAttribute("aria-label") ?? wordsOf(table.caption ?? document.createTextNode("")));
    block(`table${name ? ` "${name}"` : ""}`);
    let columns = [];
    for (const row of table.querySelectorAll("tr, [role=row]")) {
      if (!innermost(row, table) || !isThere(row)) continue;
      const cells = [...row.querySelectorAll(CELLS)].filter((cell) => innermost(cell, table) && isThere(cell));
      const isHeadRow = cells.length > 0 && cells.every(isHead);
      if (isHeadRow) columns = [];
      if (!isHeadRow && isClickable(row)) {
        found.push({ element: row, role: "clickable", name: cut(squeeze(wordsOf(row))) });
        line.push(`${numbered()}clickable: `);
      }
      let place = 0;
      let hasAny = false;
      let after = " | ";
      for (const cell of cells) {
        const before = line;
        line = [];
        isInRow = true;
        if (!interactCell(cell)) for (const part of insideOf(cell)) walk(part, true);
        const text = joined(line.join(""));
        line = before;
        isInRow = false;
        if (isHeadRow) {
          const title = squeeze(wordsOf(cell));
          for (let wide = 0; wide < (cell.colSpan ?? 1); wide++) columns.push(title);
          if (text.includes(NUMBER)) line.push(hasAny ? " | " : "", text);
          hasAny ||= text.includes(NUMBER);
        } else if (text) {
          const title = columns[place] ? `${columns[place]}: ` : "";
          line.push(hasAny ? after : "", title, text);
          hasAny = true;
          const isLabel = cell.tagName === "TH" && !title;
          after = isLabel ? (text.endsWith(":") ? " " : ": ") : " | ";
        }
        place += cell.colSpan ?? 1;
      }
      flush();
    }
  };
  const interactCell = (cell) => isSeen(cell) && isClickable(cell) && interact(cell);

  // `inline`: everything goes into the line under way
  const walk = (node, inline = false) => {
    if (node.nodeType === Node.TEXT_NODE) {
      if (!node.parentElement || isSeen(node.parentElement)) line.push(node.data.replaceAll(NUMBER, "["));
      return;
    }
    if (node.nodeType !== Node.ELEMENT_NODE || LEFT_OUT.has(node.tagName) || !isThere(node)) return;
    const role = roleOf(node);
    const display = styleOf(node).display;
    const isBlock = !inline && !display.startsWith("inline") && display !== "contents" && !display.startsWith("table-c");
    if (node.tagName === "BR" || node.tagName === "HR") return inline ? line.push(" ") : flush();
    if (isBlock) flush();
    else if (inline || display !== "inline") line.push(" ");
    if (!inline && isTable(node)) showTable(node);
    else if (node.tagName === "IFRAME") line.push(` frame "${squeeze(node.title)}" `);
    else if (node.tagName === "IMG") line.push(node.alt ? ` image "${squeeze(node.alt)}" ` : "");
    else if (node.tagName === "svg") line.push(` ${squeeze(wordsOf(node, false))} `);
    else if (!isSeen(node) || !interact(node)) {
      const level = /^H[1-6]$/.test(node.tagName) || role === "heading";
      if (level) line.push("heading: ");
      else if (role === "status" || role === "alert") line.push(`${role}: `);
      else if (role === "dialog" || role === "alertdialog" || node.tagName === "DIALOG") {
        const label = nameOf(node, "textbox");
        if (!inline) block(`dialog${label ? ` "${label}"` : ""}`);
      }
      for (const part of insideOf(node)) walk(part, inline);
      if (level || role === "status" || role === "alert") {
        if (squeeze(line.join("")) === `${level ? "heading" : role}:`) line = [];
      }
    }
    if (isBlock) flush();
    else if (inline || display !== "inline") line.push(" ");
  };

  if (document.body) walk(document.body);
  flush();
  if (asked.element) return found[asked.element - 1]?.element ?? null;
  const called = ({ role, name }) => role === asked.role && name === asked.name;
  if (asked.role) return found.flatMap((each, place) => (called(each) ? [place + 1] : []));
  return {
    title: squeeze(document.title),
    path: location.origin === asked.origin ? location.pathname + location.search + location.hash : location.href,
    lines,
  };
};
