// Replaces what is shown by what is now, from time to time. Nothing here makes markup of a text: the
// page is read by the browser's own parser, which runs no script of it.
"use strict";

(() => {
  const every = Number(document.body.dataset.every) * 1000;
  const fresh = document.getElementById("fresh");
  let isStopped = false;

  // What the viewer has done to a page: scrolled a table, ticked a box, gone to a link.
  function places(now) {
    const scrolled = Array.from(now.querySelectorAll(".wide, .sections"), (one) => one.scrollLeft);
    const opened = Array.from(now.querySelectorAll("details"), (one) => one.open);
    const ticked = Array.from(now.querySelectorAll("[type=checkbox]:checked"), (one) => one.id);
    const at = now.contains(document.activeElement) ? document.activeElement : null;
    const href = at && at.getAttribute("href");
    return (next) => {
      next.querySelectorAll(".wide, .sections").forEach((one, number) => {
        one.scrollLeft = scrolled[number] || 0;
      });
      next.querySelectorAll("details").forEach((one, number) => {
        one.open = opened[number] || false;
      });
      for (const box of next.querySelectorAll("[type=checkbox]")) {
        box.checked = ticked.includes(box.id);
      }
      if (href) {
        Array.from(next.querySelectorAll("a")).find((one) => one.getAttribute("href") === href)?.focus({ preventScroll: true });
      }
    };
  }

  async function look() {
    const answer = await fetch(location.href, {
      headers: { "X-Refresh": "1" },
      credentials: "same-origin",
      cache: "no-store",
    });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.getElementById("live");
    if (!answer.ok || !next) {
      throw new Error(String(answer.status));
    }
    const now = document.getElementById("live");
    const restore = places(now);
    now.replaceWith(document.adoptNode(next));
    restore(next);
    document.title = page.title;
    document.dispatchEvent(new Event("looked"));
    fresh.textContent = `as of ${new Date().toISOString().slice(11, 19)}Z`;
    fresh.classList.remove("wrong");
  }

  async function again() {
    // Whoever has turned away, or marks a text, is left alone.
    if (!document.hidden && document.getSelection().isCollapsed && !isStopped) {
      try {
        await look();
      } catch (error) {
        fresh.textContent = "not refreshed (" + error.message + "): what is shown is of before";
        fresh.classList.add("wrong");
      }
    }
    setTimeout(again, every);
  }

  const button = document.createElement("button");
  button.textContent = "hold";
  button.addEventListener("click", () => {
    isStopped = !isStopped;
    button.textContent = isStopped ? "go on" : "hold";
  });
  fresh.after(button);
  setTimeout(again, every);
})();
