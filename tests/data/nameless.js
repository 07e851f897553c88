// What can be pressed or seen and has no name.
[...document.querySelectorAll('button, select, input, svg, img, a, nav, aside, dialog')].filter((e) =>
  e.checkVisibility() && !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent.trim())
).map((e) => e.outerHTML)
