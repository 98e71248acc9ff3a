// What is copied from an example is its code: without prompts and without what it prints.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-clipboard-target]");
  const code = button && document.querySelector(button.dataset.clipboardTarget);
  if (!code) return;
  const lines = code.textContent.split("\n");
  const prompts = /^(>>>|\.\.\.)( |$)/;
  const typed = lines.some((line) => line.startsWith(">>>")) ? lines.filter((line) => prompts.test(line)) : lines;
  button.dataset.clipboardText = typed.map((line) => line.replace(prompts, "")).join("\n").trimEnd();
}, true);
