// The terminal takes keys once it has the focus, which otherwise needs a click.
new MutationObserver((_, observer) => {
  const keyboard = document.querySelector(".xterm-helper-textarea");
  if (keyboard && document.body.classList.contains("-first-byte")) {
    observer.disconnect();
    keyboard.focus();
  }
}).observe(document.documentElement, { attributes: true, childList: true, subtree: true });
