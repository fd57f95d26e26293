// The button that chooses between the light and the dark theme.

const system = matchMedia('(prefers-color-scheme: dark)');

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : system.matches;
}

// addToggle makes button switch the theme. onChange is called now and whenever the colours change.
export function addToggle(button, onChange = () => {}) {
  const show = () => {
    button.setAttribute('aria-pressed', String(isDark()));
    onChange();
  };
  button.addEventListener('click', () => {
    const theme = isDark() ? 'light' : 'dark';
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem('headgate-theme', theme);
    } catch { /* storage may be forbidden: the choice then lasts as long as the page */ }
    show();
  });
  system.addEventListener('change', show);
  matchMedia('(forced-colors: active)').addEventListener('change', show);
  show();
}
