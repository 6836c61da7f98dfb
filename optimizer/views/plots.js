// Shows what a plot's mark stands for while the pointer is near it; a mark of a trial leads to the trial.
(() => {
  const NEAR = 14;
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true"); // a picture's table says the same
  document.body.append(tip);

  function nearest(event) {
    const picture = event.target.closest("figure svg");
    let best = null, least = NEAR;
    for (const mark of picture ? picture.querySelectorAll("[role=graphics-symbol][aria-label]") : []) {
      const box = mark.getBoundingClientRect();
      const x = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
      const y = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
      const distance = Math.hypot(x, y) || Math.hypot(box.left + box.right - 2 * event.clientX, box.top + box.bottom - 2 * event.clientY) * 1e-6;
      if (distance < least) [best, least] = [mark, distance];
    }
    return best;
  }

  function show(event) {
    const mark = nearest(event);
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.getAttribute("aria-label");
    const { width, height } = tip.getBoundingClientRect();
    const above = event.clientY - height - 14;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, document.documentElement.clientWidth - width - 4))}px`;
    tip.style.top = `${above > 4 ? above : event.clientY + 18}px`;
  }

  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
  document.addEventListener("click", (event) => {
    const trial = /^Trial (\d+)/.exec(nearest(event)?.getAttribute("aria-label") ?? "");
    if (trial && document.getElementById(`trial-${trial[1]}`)) location.hash = `trial-${trial[1]}`;
  });

  // some browsers leave closed what a link leads into
  addEventListener("hashchange", () => {
    const target = document.getElementById(location.hash.slice(1));
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target?.scrollIntoView();
  });
})();
