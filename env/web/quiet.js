// Before any script of a page: chance is seeded, animations end at once, everything stays in one tab and on one server,
// and `mnemotuneQuiet` waits until nothing is under way.
(() => {
  if (globalThis.mnemotuneQuiet) return;
  const pending = new Set();
  let leaving = false;
  let wake = () => {};
  const stays = () => {
    leaving = false;
    wake();
  };
  const notes = [];

  const until = (promise) => {
    const settled = Promise.resolve(promise).then(
      () => pending.delete(settled),
      () => pending.delete(settled),
    );
    pending.add(settled);
  };

  const { fetch } = globalThis;
  globalThis.fetch = function (...request) {
    const answer = fetch.apply(this, request);
    until(
      answer.then((response) =>
        response.headers.get("content-type")?.startsWith("text/event-stream") ? null : response.clone().arrayBuffer(),
      ),
    );
    return answer;
  };
  const { open, send } = XMLHttpRequest.prototype;
  const endings = new WeakMap();
  XMLHttpRequest.prototype.open = function (...request) {
    endings.get(this)?.(); // what was under way is given up, and no event says so
    return open.apply(this, request);
  };
  XMLHttpRequest.prototype.send = function (...body) {
    send.apply(this, body);
    if (this.readyState === XMLHttpRequest.UNSENT || this.readyState === XMLHttpRequest.DONE) return;
    until(
      new Promise((ended) => {
        endings.set(this, ended);
        this.addEventListener("loadend", ended);
      }),
    );
  };

  // the clock would never get past what is repeated after no time
  const { setInterval } = globalThis;
  globalThis.setInterval = (task, wait, ...rest) => setInterval(task, Math.max(Number(wait) || 0, 1), ...rest);

  globalThis.navigation?.addEventListener("navigate", (event) => {
    const to = new URL(event.destination.url);
    const stays = event.destination.sameDocument || event.hashChange || event.downloadRequest !== null;
    const isServed = /^https?:$/.test(to.protocol);
    if (isServed ? to.origin !== location.origin : !stays) {
      notes.push(isServed ? `${to.href} is another server's, and was not opened.` : `No page begins with ${to.protocol}`);
      event.preventDefault();
    } else if (!stays) leaving = true;
  });
  globalThis.navigation?.addEventListener("navigateerror", stays);
  document.addEventListener("securitypolicyviolation", ({ effectiveDirective, disposition, blockedURI }) => {
    if (effectiveDirective !== "form-action" || disposition !== "enforce") return;
    notes.push(`${blockedURI} takes no form from this page, which forbids it.`);
    stays();
  });
  globalThis.open = () => null;
  const targetOf = (element) =>
    element.getAttribute("target") ?? document.querySelector("base[target]")?.getAttribute("target");
  const openHere = (link) => targetOf(link) && link.setAttribute("target", "_self");
  document.addEventListener(
    "click",
    (event) => {
      const path = event.composedPath();
      const link = path.find((part) => /^(a|area)$/i.test(part.tagName));
      if (link) openHere(link);
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
      if (!link && !path.some(({ type }) => type === "submit" || type === "image")) return;
      event.preventDefault();
      notes.push("Control, Shift and Meta ask for another tab or window, and none was opened.");
    },
    true,
  );
  // what is no part of the document is clicked unseen by it
  for (const { prototype } of [HTMLAnchorElement, HTMLAreaElement])
    for (const name of ["click", "dispatchEvent"]) {
      const act = prototype[name];
      prototype[name] = function (...event) {
        openHere(this);
        return act.apply(this, event);
      };
    }
  const isFrame = (name) => [...document.getElementsByName(name)].some(({ tagName }) => tagName === "IFRAME");
  const sendHere = (form, button) => {
    const target = button?.getAttribute("formtarget") ?? targetOf(form);
    if (!target || isFrame(target)) return;
    form.setAttribute("target", "_self");
    button?.removeAttribute("formtarget");
  };
  document.addEventListener("submit", ({ target, submitter }) => sendHere(target, submitter), true);
  const { submit } = HTMLFormElement.prototype;
  HTMLFormElement.prototype.submit = function () {
    sendHere(this);
    submit.call(this);
  };

  document.addEventListener("readystatechange", () => {
    if (document.readyState !== "interactive") return;
    begin();
    const still = new CSSStyleSheet();
    still.replaceSync(
      "*, *::before, *::after { animation-duration: 1ms !important; transition-duration: 1ms !important; " +
        "animation-delay: 0s !important; transition-delay: 0s !important; scroll-behavior: auto !important }",
    );
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, still];
  });

  let seed = null;
  // each document has chances of its own, by the page's clock at its beginning
  const begin = () => (seed ??= (20260302 + Math.floor((Date.now() - Date.UTC(2026, 2, 2, 9)) / 1000)) | 0);
  const chance = () => {
    begin();
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  Math.random = chance;
  Crypto.prototype.getRandomValues = function (array) {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    for (let place = 0; place < bytes.length; place++) bytes[place] = Math.floor(chance() * 256);
    return array;
  };
  Crypto.prototype.randomUUID = () => {
    const hex = Array.from({ length: 32 }, () => Math.floor(chance() * 16).toString(16)).join("");
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`;
  };

  const turn = () =>
    new Promise((next) => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => next();
      channel.port2.postMessage(null);
    });
  const quiet = async () => {
    for (let calm = 0; calm < 4; calm++) {
      if (pending.size) {
        await Promise.all(pending);
        calm = 0;
      }
      await turn();
      // the page is on its way out: its end ends this call, or what says that it stays
      if (leaving) await new Promise((stay) => (wake = stay));
    }
    return notes.splice(0);
  };
  Object.defineProperty(globalThis, "mnemotuneQuiet", { value: quiet });
  Object.defineProperty(globalThis, "mnemotuneStays", { value: stays });
})();
