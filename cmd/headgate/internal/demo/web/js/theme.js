// Runs before the page is drawn, so that a chosen theme does not flash.
'use strict';
(() => {
  try {
    const chosen = localStorage.getItem('headgate-theme');
    if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
  } catch { /* storage may be forbidden: the system's theme holds */ }
})();
