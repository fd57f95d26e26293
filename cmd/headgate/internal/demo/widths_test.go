package demo_test

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
)

// fonts are fonts that a system may use instead of the first choice of the page. The
// styles are set on every element. Wide spacing (WCAG 1.4.12) represents all wider
// fonts that are not installed.
var fonts = []struct{ name, style string }{
	{"the page's own font", ""},
	{"DejaVu Sans", `font-family: "DejaVu Sans", Verdana, sans-serif !important`},
	{"a monospaced font", `font-family: "DejaVu Sans Mono", "Liberation Mono", monospace !important`},
	{"a serif font", `font-family: "DejaVu Serif", "Liberation Serif", serif !important`},
	{"wide spacing", `letter-spacing: 0.12em !important; word-spacing: 0.16em !important; line-height: 1.5 !important`},
}

// looks are viewports from a small phone to a wide screen, with the text sizes of
// browsers. 200 % zoom halves the width and height in CSS pixels and doubles the
// density; 200 % text size changes neither.
var looks = []chromium.View{
	{Width: 320, Height: 568, Phone: true},
	{Width: 390, Height: 844, Phone: true},
	{Width: 768, Height: 1024},
	{Width: 1440, Height: 900, ReducedMotion: true},
	{Width: 1920, Height: 1080},
	{Width: 384, Height: 512, Zoom: 2},
	{Width: 640, Height: 400, Zoom: 2},
	{Width: 720, Height: 450, Zoom: 2},
	{Width: 320, Height: 568, Phone: true, Text: 2},
	{Width: 390, Height: 844, Phone: true, Text: 2},
	{Width: 768, Height: 1024, Text: 2},
	{Width: 1440, Height: 900, Text: 2},
}

// testWidths: for every width, zoom, text size and font, no text is cut off, no control
// covers another one, and no horizontal scrolling is necessary. The page shows its
// longest texts.
func (v visitor) testWidths(t *testing.T) {
	v.Click(t, "[data-scenario=servers]")
	v.tab.until(t, "two tracks", func(s state) bool { return s.Playing == "servers" && s.Sent > 4 })
	v.Click(t, "#stop")
	v.tab.until(t, "stop", func(s state) bool { return s.Playing == "" })
	v.mustAgree(t, "two tracks")
	looks, fonts := looks, fonts
	if testing.Short() {
		looks, fonts = looks[1:4], fonts[:3]
	}
	for _, l := range looks {
		v.SetView(t, l)
		v.Until(t, fmt.Sprintf("document.documentElement.clientWidth === %d", l.Width))
		chromium.Eval[bool](t, v.Browser, "document.getElementById('settings').open = true")
		for _, f := range fonts {
			if faults := chromium.Eval[[]string](t, v.Browser, fmt.Sprintf("(%s)(%q)", faultsOfLayout, f.style)); len(faults) > 0 {
				t.Errorf("%s, %s: got %d faults: %q", l, f.name, len(faults), faults[:min(len(faults), 12)])
			}
			if *pictures != "" {
				shoot(t, v.Browser, fmt.Sprintf("%s/%d-%d-%d-%s.png", *pictures, l.Width, max(l.Zoom, 1), max(l.Text, 1), f.name))
			}
		}
	}
	v.SetView(t, chromium.View{Width: 1440, Height: 1000})
}

// faultsOfLayout applies a style to every element, fills the page with its longest
// texts, and returns the texts and controls that are not usable.
const faultsOfLayout = `(style) => {
	const sheet = new CSSStyleSheet();
	sheet.replaceSync('body, body * {' + style + '}');
	document.adoptedStyleSheets = [sheet];
	const long = { link: 'rejected: too many open pages? retrying', unit: 'bars: up to 5,000 requests in 0.24 s',
		note: 'waiting for the window boundary: 3.4 s', sent: '36,000,000', speed: '10,000', 'label-rate': '10,000', 'label-n': '1,000' };
	const former = Object.keys(long).map((id) => [id, document.getElementById(id).textContent]);
	for (const id in long) document.getElementById(id).textContent = long[id];
	const faults = new Set();
	const say = (what, e) => faults.add(what + ': ' + (e.id || e.className || e.tagName) + ' ' + (e.innerText ?? '').trim().slice(0, 24));
	const seen = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest('.hidden, .skip, .word');
	const scrolls = (e) => e.matches('.scroll, .snippet pre, .pills');

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
				if (scrolls(box)) break; // scrollable, also by keyboard
				if (getComputedStyle(box).display === 'contents' || getComputedStyle(box).display === 'inline') continue;
				const b = box.getBoundingClientRect();
				if (r.left < b.left - 1 || r.right > b.right + 1) {
					say('text sticks out of ' + (box.id || box.className || box.tagName) + ', ' + Math.round(r.left - b.left) + ' to ' + Math.round(r.right - b.left) + ' of ' + Math.round(b.width) + ' px', e);
					break;
				}
				if (box.matches('button, summary, .panel, .top, .actions, .last, .snippet') && (r.top < b.top - 1 || r.bottom > b.bottom + 1))
					say('text sticks out below or above ' + (box.id || box.className || box.tagName), e);
			}
		}
	}
	const controls = [...document.querySelectorAll('button, input, select, summary, a[href]')].filter(seen);
	const boxes = controls.map((e) => e.getBoundingClientRect());
	const bar = document.querySelector('.actions');
	const sticks = getComputedStyle(bar).position === 'sticky';
	controls.forEach((e, i) => {
		const a = boxes[i];
		if (a.height < 24 || a.width < 24) say('too small to press, ' + Math.round(a.width) + ' x ' + Math.round(a.height) + ' px', e);
		if (e.matches('button, summary') && (e.scrollWidth > e.clientWidth + 2 || e.scrollHeight > e.clientHeight + 2)) say('cut off', e);
		for (let k = 0; k < i; k++) {
			if (sticks && bar.contains(e) !== bar.contains(controls[k])) continue; // it can be scrolled out from under the bar
			const b = boxes[k];
			if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
				say('lies over ' + (controls[k].id || controls[k].innerText), e);
		}
	});
	if (sticks && bar.offsetHeight > innerHeight / 2.5) faults.add('the bar takes ' + bar.offsetHeight + ' px of ' + innerHeight);
	for (const [id, text] of former) document.getElementById(id).textContent = text;
	return [...faults];
}`
