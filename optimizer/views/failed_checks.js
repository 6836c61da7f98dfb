// Draws the failures of the sealed test when their part of the page is opened.
(() => {
  const PAGE = 25;
  const part = document.getElementById("failures");
  const words = JSON.parse(part.dataset.words); // {stage, seed, evolved, lacking: {policy: true, or the groups that it lacks}}
  const list = document.getElementById("failures-list");
  const found = document.getElementById("failures-found");
  const more = document.getElementById("failures-more");
  const filters = Object.fromEntries([...part.querySelectorAll("select")].map((select) => [select.name, select]));
  const lines = [];
  let entries = [], chosen = [], shown = 0;

  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const text = (places) => places.map((place) => lines[place]).join("\n");
  const told = (known) => (known === null || known === undefined ? "not asked" : known ? "yes" : "no");
  const isTested = (policy, entry) => {
    const lacks = words.lacking[policy];
    return !(lacks === true || (lacks && lacks.includes(entry.group)));
  };
  const kindOf = (policy, entry) => {
    const failure = entry[policy];
    if (failure) return failure.kind || "not known";
    return isTested(policy, entry) ? "right" : "not tested";
  };

  async function unpack() {
    const packed = Uint8Array.from(atob(document.getElementById("failures-data").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const rows = (await new Response(stream).text()).trim().split("\n");
    const policies = {};
    for (const group of rows.filter(Boolean).map((row) => JSON.parse(row))) {
      lines.push(...group.lines);
      for (const [policy, failures] of Object.entries(group.policies)) (policies[policy] ||= []).push(...failures);
    }
    return policies;
  }

  function join(policies) {
    const byCheck = new Map();
    for (const [policy, failures] of Object.entries(policies)) {
      for (const failure of failures) {
        const key = JSON.stringify([failure.task, failure.stage, failure.check]);
        if (!byCheck.has(key)) byCheck.set(key, { group: failure.group, stage: failure.stage, asked: failure.asked, topics: new Set() });
        const entry = byCheck.get(key);
        entry[policy] = failure;
        for (const need of failure.needs) entry.topics.add(need.topic);
      }
    }
    return [...byCheck.values()];
  }

  const TESTS = {
    group: (entry, value) => entry.group === value,
    topic: (entry, value) => entry.topics.has(value),
    stage: (entry, value) => entry.stage === Number(value),
    kind: (entry, value) => [words.seed, words.evolved].some((policy) => entry[policy] && kindOf(policy, entry) === value),
    failed: (entry, value) => ({
      evolved: entry[words.evolved], seed: entry[words.seed], both: entry[words.seed] && entry[words.evolved],
      worse: entry[words.evolved] && kindOf(words.seed, entry) === "right",
      better: entry[words.seed] && kindOf(words.evolved, entry) === "right",
    })[value],
  };

  function fill(select, values) {
    for (const [value, label] of values) {
      const option = element("option", label);
      option.value = value;
      select.append(option);
    }
  }

  function account(failure) {
    const asked = text(failure.asked);
    const told = element("p", undefined, "account");
    for (const line of text(failure.account).split("\n").filter((line) => line !== `Question: ${asked}`)) {
      const label = /^[A-Z][A-Za-z ]{2,24}:/.exec(line);
      if (label) told.append(element("b", label[0]));
      told.append(label ? line.slice(label[0].length) : line, "\n");
    }
    return told;
  }

  function cameBack(failure) {
    const texts = failure.came_back || [];
    const known = failure.needs.some((need) => typeof need.shown === "boolean");
    if (!texts.length) return element("p", known ? "Nothing came back." : "What came back is not known.", "faint");
    const details = element("details", undefined, "came-back");
    details.append(element("summary", `What came back: ${texts.length} ${texts.length === 1 ? "text" : "texts"}`));
    details.addEventListener("toggle", () => {
      if (!details.open || details.childElementCount > 1) return;
      const all = element("ol");
      all.append(...texts.map((places) => element("li", text(places))));
      details.append(all);
    });
    return details;
  }

  function policyPart(name, entry) {
    const box = element("section", undefined, "failure-policy");
    const failure = entry[name];
    const said = failure ? (failure.kind ? failure.kind + " failure" : "wrong") : kindOf(name, entry);
    box.append(element("h3", `${name}: ${said}`));
    if (!failure) return box;
    box.append(account(failure), cameBack(failure));
    for (const need of failure.needs) {
      const facts = element("dl", undefined, "need");
      const row = (term, value) => facts.append(element("dt", term), element("dd", value));
      row("Needs", `${need.key.replaceAll("_", " ")} (${need.topic}), told in ${words.stage} ${need.stage + 1}`);
      row("Known then", told(need.known_then));
      row("Known now", told(need.known));
      row("Came back", typeof need.shown === "boolean" ? told(need.shown) : "not known");
      row("Memory held then", need.held_then.length ? need.held_then.map(text).join("\n") : "nothing that shares a word with it");
      box.append(facts);
    }
    return box;
  }

  function drawn(entry) {
    const item = element("li");
    const details = element("details");
    const summary = element("summary");
    summary.append(element("span", text(entry.asked)));
    summary.append(element("span", `${entry.group}, ${words.stage} ${entry.stage + 1} · ${words.seed}: ${kindOf(words.seed, entry)} · ${words.evolved}: ${kindOf(words.evolved, entry)}`, "faint"));
    details.append(summary);
    details.addEventListener("toggle", () => {
      if (!details.open || details.childElementCount > 1) return;
      const both = element("div", undefined, "failure-both");
      for (const policy of [words.seed, words.evolved]) both.append(policyPart(policy, entry));
      details.append(both);
    });
    item.append(details);
    return item;
  }

  function showMore() {
    list.append(...chosen.slice(shown, shown + PAGE).map(drawn));
    shown = Math.min(chosen.length, shown + PAGE);
    more.hidden = shown >= chosen.length;
    found.textContent = `${chosen.length.toLocaleString("en")} of ${entries.length.toLocaleString("en")} failed checks, ${shown.toLocaleString("en")} shown`;
  }

  function choose() {
    const tests = Object.entries(filters).filter(([, select]) => select.value !== "");
    chosen = entries.filter((entry) => tests.every(([name, select]) => TESTS[name](entry, select.value)));
    shown = 0;
    list.replaceChildren();
    showMore();
  }

  async function begin() {
    found.textContent = "Unpacking …";
    try {
      entries = join(await unpack());
    } catch (error) {
      found.textContent = `This browser cannot unpack the failures (${error.message}); they are in the files named above.`;
      return;
    }
    const all = (values) => [...new Set(values)].sort((a, b) => (a > b) - (a < b));
    fill(filters.group, all(entries.map((entry) => entry.group)).map((group) => [group, group]));
    fill(filters.topic, all(entries.flatMap((entry) => [...entry.topics])).map((topic) => [topic, topic.replaceAll("_", " ")]));
    fill(filters.stage, all(entries.map((entry) => entry.stage)).map((stage) => [stage, `${words.stage} ${stage + 1}`]));
    for (const select of Object.values(filters)) {
      select.disabled = false;
      select.addEventListener("change", choose);
    }
    more.addEventListener("click", showMore);
    choose();
  }

  part.addEventListener("toggle", () => { if (part.open && !entries.length) begin(); });
  if (part.open) begin();
})();
