// Puts the content of a live page anew. Only what has changed is touched, so that what its reader has opened, scrolled,
// focused, marked or typed stays, and nothing flickers.
"use strict";
(function () {
  const wait = Number(document.querySelector("main").dataset.refresh);
  const lost = document.createElement("p");
  lost.className = "note";
  lost.setAttribute("role", "status");
  lost.textContent = "The dashboard does not answer; what you see is what it said last.";
  let tag = "";

  // mine says whether an attribute is its reader's to change.
  function mine(node, name) {
    return (node.nodeName === "DETAILS" && name === "open") || (node.nodeName === "INPUT" && name === "value");
  }

  // morph makes a node like another one.
  function morph(now, then) {
    if (now.nodeType !== Node.ELEMENT_NODE) {
      if (now.nodeValue !== then.nodeValue) now.nodeValue = then.nodeValue;
      return;
    }
    for (const { name } of [...now.attributes]) if (!then.hasAttribute(name) && !mine(now, name)) now.removeAttribute(name);
    for (const { name, value } of then.attributes)
      if (now.getAttribute(name) !== value && !mine(now, name)) now.setAttribute(name, value);
    const named = new Map([...now.children].filter((c) => c.id).map((c) => [c.id, c]));
    const wanted = new Set([...then.children].map((c) => c.id));
    let at = now.firstChild;
    for (const want of [...then.childNodes]) {
      while (at && at.id && !wanted.has(at.id)) at = gone(at); // what is not there any more
      let is = want.id ? named.get(want.id) : at;
      if (is && (is.nodeName !== want.nodeName || (is.id || "") !== (want.id || ""))) is = undefined;
      if (!is) {
        now.insertBefore(document.importNode(want, true), at);
        continue;
      }
      if (is !== at) now.insertBefore(is, at);
      else at = at.nextSibling;
      if (!is.isEqualNode(want)) morph(is, want);
    }
    while (at) at = gone(at);
  }

  function gone(node) {
    const next = node.nextSibling;
    node.remove();
    return next;
  }

  async function refresh() {
    try {
      if (!document.hidden) {
        const answer = await fetch(location.href, { cache: "no-store", headers: tag ? { "If-None-Match": tag } : {} });
        if (answer.status !== 304) {
          if (!answer.ok) throw new Error(answer.statusText);
          tag = answer.headers.get("ETag") || "";
          const next = new DOMParser().parseFromString(await answer.text(), "text/html");
          if (document.title !== next.title) document.title = next.title;
          for (const part of ["header", "main"]) {
            const now = document.querySelector(part), then = next.querySelector(part);
            if (now && then) morph(now, then);
          }
        }
        lost.remove();
      }
    } catch {
      document.body.prepend(lost);
    }
    setTimeout(refresh, wait);
  }
  setTimeout(refresh, wait);
})();
