// Puts the content of a live page anew, and keeps what its reader has opened, scrolled and focused.
"use strict";
(function () {
  const wait = Number(document.querySelector("main").dataset.refresh);
  const lost = document.createElement("p");
  lost.className = "note";
  lost.setAttribute("role", "status");
  lost.textContent = "The dashboard does not answer; what you see is what it said last.";

  function put(text) {
    const next = new DOMParser().parseFromString(text, "text/html");
    const open = [...document.querySelectorAll("details")].map((d) => d.open);
    const scrolled = [...document.querySelectorAll(".scroll")].map((s) => [s.scrollLeft, s.scrollTop]);
    const focused = [...document.querySelectorAll("main a, main summary, main [tabindex]")].indexOf(document.activeElement);
    document.title = next.title;
    for (const part of ["header", "main"]) {
      const now = document.querySelector(part), then = next.querySelector(part);
      if (now && then && now.innerHTML !== then.innerHTML) now.innerHTML = then.innerHTML;
    }
    document.querySelectorAll("details").forEach((d, i) => { d.open = Boolean(open[i]); });
    document.querySelectorAll(".scroll").forEach((s, i) => { if (scrolled[i]) [s.scrollLeft, s.scrollTop] = scrolled[i]; });
    if (focused >= 0) document.querySelectorAll("main a, main summary, main [tabindex]")[focused]?.focus({ preventScroll: true });
  }

  async function refresh() {
    try {
      if (!document.hidden) {
        const answer = await fetch(location.href, { cache: "no-store" });
        if (!answer.ok) throw new Error(answer.statusText);
        put(await answer.text());
        lost.remove();
      }
    } catch {
      document.body.prepend(lost);
    }
    setTimeout(refresh, wait);
  }
  setTimeout(refresh, wait);
})();
