package chromium

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Fonts are fonts that a system may use instead of the first choice of a page, as styles
// that are set on every element. Wide spacing (WCAG 1.4.12) represents all wider fonts
// that are not installed.
var Fonts = []struct{ Name, Style string }{
	{"the page's own font", ""},
	{"DejaVu Sans", `font-family: "DejaVu Sans", Verdana, sans-serif !important`},
	{"a monospaced font", `font-family: "DejaVu Sans Mono", "Liberation Mono", monospace !important`},
	{"a serif font", `font-family: "DejaVu Serif", "Liberation Serif", serif !important`},
	{"wide spacing", `letter-spacing: 0.12em !important; word-spacing: 0.16em !important; line-height: 1.5 !important`},
}

// Layout describes a page for [Browser.LayoutFaults], with CSS selectors.
type Layout struct {
	Long    map[string]string `json:"long"`    // the longest text of an element, by its id
	Ignored string            `json:"ignored"` // elements that are not visible
	Scrolls string            `json:"scrolls"` // elements that scroll horizontally
	Boxes   string            `json:"boxes"`   // elements whose texts must not stick out above or below
	Bar     string            `json:"bar"`     // a bar that may stick to an edge of the screen
}

// LayoutFaults applies a style to every element, fills the page with its longest texts,
// and returns the texts and controls that are not usable: cut off, too small, or covered
// by another one. It also reports a page that is wider than the viewport.
func (b *Browser) LayoutFaults(t testing.TB, layout *Layout, style string) []string {
	t.Helper()
	settings, err := json.Marshal(layout)
	if err != nil {
		t.Fatal(err)
	}
	return Eval[[]string](t, b, fmt.Sprintf("%s.then(() => (%s)(%q, %s))", nextFrame, layoutFaults, style, settings))
}

// nextFrame waits until the page has been drawn. Before that, observers of sizes have not
// run, so a chart may still have its former width.
const nextFrame = `new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))`

const layoutFaults = `(style, { long, ignored, scrolls, boxes: boxed, bar: barSelector }) => {
	const sheet = new CSSStyleSheet();
	sheet.replaceSync('body, body * {' + style + '}');
	document.adoptedStyleSheets = [sheet];
	const former = Object.keys(long).map((id) => [id, document.getElementById(id).textContent]);
	for (const id in long) document.getElementById(id).textContent = long[id];
	const faults = new Set();
	const add = (what, e) => faults.add(what + ': ' + (e.id || e.className || e.tagName) + ' ' + (e.innerText ?? '').trim().slice(0, 24));
	const seen = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest(ignored);

	const wider = document.documentElement.scrollWidth - document.documentElement.clientWidth;
	if (wider > 0) faults.add('the page is ' + wider + ' px too wide');

	if (document.querySelector('.skip').getBoundingClientRect().bottom > 0) faults.add('the skip link shows');

	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	const range = document.createRange();
	for (let node; (node = walker.nextNode());) {
		const e = node.parentElement;
		if (!node.textContent.trim() || !seen(e) || e.closest('option, noscript')) continue;
		range.selectNodeContents(node);
		for (const r of range.getClientRects()) {
			if (r.width < 1) continue;
			for (let box = e; box; box = box.parentElement) {
				if (box.matches(scrolls)) break; // scrollable, also by keyboard
				if (getComputedStyle(box).display === 'contents' || getComputedStyle(box).display === 'inline') continue;
				const b = box.getBoundingClientRect();
				if (r.left < b.left - 1 || r.right > b.right + 1) {
					add('text sticks out of ' + (box.id || box.className || box.tagName) + ', ' + Math.round(r.left - b.left) + ' to ' + Math.round(r.right - b.left) + ' of ' + Math.round(b.width) + ' px', e);
					break;
				}
				if (box.matches(boxed) && (r.top < b.top - 1 || r.bottom > b.bottom + 1))
					add('text sticks out below or above ' + (box.id || box.className || box.tagName), e);
			}
		}
	}
	const controls = [...document.querySelectorAll('button, input, select, summary, a[href]')].filter(seen);
	const boxes = controls.map((e) => e.getBoundingClientRect());
	const bar = barSelector && document.querySelector(barSelector);
	const sticks = bar && getComputedStyle(bar).position === 'sticky';
	controls.forEach((e, i) => {
		const a = boxes[i];
		if (a.height < 24 || a.width < 24) add('too small to press, ' + Math.round(a.width) + ' x ' + Math.round(a.height) + ' px', e);
		if (e.matches('button, summary') && (e.scrollWidth > e.clientWidth + 2 || e.scrollHeight > e.clientHeight + 2)) add('cut off', e);
		for (let k = 0; k < i; k++) {
			if (sticks && bar.contains(e) !== bar.contains(controls[k])) continue; // it can be scrolled out from under the bar
			const b = boxes[k];
			if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
				add('lies over ' + (controls[k].id || controls[k].innerText), e);
		}
	});
	if (sticks && bar.offsetHeight > innerHeight / 2.5) faults.add('the bar takes ' + bar.offsetHeight + ' px of ' + innerHeight);
	for (const [id, text] of former) document.getElementById(id).textContent = text;
	return [...faults];
}`

// OnlyFont returns an environment variable for [Start]: a configuration of fontconfig
// with the fonts in one folder below /usr/share/fonts, of which font is the default.
// scripts/setup installs them.
func OnlyFont(t testing.TB, folder, font string) string {
	t.Helper()
	fonts := filepath.Join("/usr/share/fonts", folder)
	if _, err := os.Stat(fonts); err != nil {
		t.Fatalf("the fonts of this test are missing: %v; scripts/setup installs them", err)
	}
	file := filepath.Join(t.TempDir(), "fonts.conf")
	text := fmt.Sprintf(`<fontconfig><dir>%s</dir><cachedir>%s</cachedir><match target="pattern">
		<edit name="family" mode="append" binding="strong"><string>%s</string></edit></match></fontconfig>`, fonts, t.TempDir(), font)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "FONTCONFIG_FILE=" + file
}

// Shoot writes a screenshot of the viewport to a file.
func (b *Browser) Shoot(t testing.TB, file string) {
	t.Helper()
	if err := os.WriteFile(file, b.Screenshot(t), 0o644); err != nil {
		t.Fatal(err)
	}
}
