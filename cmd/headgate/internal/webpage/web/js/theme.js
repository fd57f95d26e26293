// Runs before the first paint, so that the page does not flash in the other theme.
'use strict';
(() => {
  try {
    const chosen = localStorage.getItem('headgate-theme');
    if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
  } catch { /* storage may be forbidden: the system's theme holds */ }
})();
