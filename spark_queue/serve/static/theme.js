// Light or dark, as the viewer has chosen; as the system is, until then.
"use strict";

(() => {
  const root = document.documentElement;
  const isDark = () =>
    (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  let kept = null;
  try {
    kept = localStorage.getItem("theme");
  } catch {
    // A browser may keep nothing: then the choice is for this page alone.
  }
  if (kept === "dark" || kept === "light") {
    root.dataset.theme = kept;
  }
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const name = () => {
      button.textContent = isDark() ? "Light" : "Dark";
    };
    button.hidden = false;
    name();
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      name();
      document.dispatchEvent(new Event("theme"));
      try {
        localStorage.setItem("theme", root.dataset.theme);
      } catch {
        // As above.
      }
    });
  });
})();
