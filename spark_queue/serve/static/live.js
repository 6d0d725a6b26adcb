// Replaces what is shown by what is now, from time to time. Nothing here makes markup of a text: the
// page is read by the browser's own parser, which runs no script of it.
"use strict";

(() => {
  const every = Number(document.body.dataset.every) * 1000;
  const fresh = document.getElementById("fresh");
  let isStopped = false;

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
    const places = Array.from(now.querySelectorAll(".wide"), (one) => one.scrollLeft);
    now.replaceWith(document.adoptNode(next));
    next.querySelectorAll(".wide").forEach((one, at) => {
      one.scrollLeft = places[at] || 0;
    });
    // It says of which instant the page is.
    document.querySelector("h1").textContent = page.querySelector("h1").textContent;
    document.title = page.title;
    fresh.textContent = "as of " + new Date().toLocaleTimeString();
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
