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
  const { send } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.send = function (...body) {
    until(new Promise((ended) => this.addEventListener("loadend", ended)));
    return send.apply(this, body);
  };

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
  globalThis.open = () => null;
  document.addEventListener(
    "click",
    (event) => event.composedPath().find((part) => part.tagName === "A" && part.target)?.removeAttribute("target"),
    true,
  );

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
