// Puts a button beside each command that copies it, where the browser lets a page do so.
"use strict";

(() => {
  function arm() {
    if (!navigator.clipboard) {
      return;
    }
    for (const code of document.querySelectorAll("code")) {
      if (code.nextElementSibling?.classList.contains("copy")) {
        continue;
      }
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      });
      code.after(button);
    }
  }

  document.addEventListener("looked", arm);
  arm();
})();
