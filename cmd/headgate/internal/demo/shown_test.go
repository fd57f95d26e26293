package demo_test

import (
	"fmt"
	"strings"
)

// shown is the visible content of the page.
type shown struct {
	Sent   int64
	Result string
	Panels []struct {
		Algorithm string
		Seq       int64
		Counts    []struct{ Allowed, Denied, Undecided, Most, Text string }
		Facts     map[string]string
		Verdict   string
		Fields    string
	}
	Rows [][]string
}

const readPage = `(() => ({
	sent: Number(document.documentElement.dataset.sent),
	result: document.getElementById('headline').textContent + '\n' + document.getElementById('details').textContent,
	panels: [...document.querySelectorAll('.panel')].map((p) => [p, document.querySelector('.last[data-of=' + p.dataset.algorithm + ']')]).map(([p, last]) => ({
		algorithm: p.dataset.algorithm,
		seq: Number(last.dataset.seq ?? 0),
		counts: [...p.querySelectorAll('.count:not([hidden])')].map((c) => ({
			...Object.fromEntries([...c.querySelectorAll('[data-count]')].map((b) => [b.dataset.count, b.textContent])),
			most: c.querySelector('.peak b').textContent,
			text: c.innerText,
		})),
		facts: Object.fromEntries([...last.querySelectorAll('[data-fact]')].map((f) => [f.dataset.fact, f.dataset.value ?? ''])),
		verdict: last.querySelector('.verdict b').textContent,
		fields: last.querySelector('.fields').textContent,
	})),
	rows: [...document.querySelectorAll('#requests tbody tr')].map((r) => [...r.cells].map((c) => c.textContent)),
}))()`

func difference(kept state, page shown) string {
	if kept.Sent != page.Sent {
		return fmt.Sprintf("%d requests were sent, the page says %d", kept.Sent, page.Sent)
	}
	if newest := strings.ReplaceAll(page.Rows[0][0], ",", ""); len(kept.Rows) > 0 && newest != fmt.Sprint(kept.Rows[0].Seq) {
		return fmt.Sprintf("the table begins with request %s want %d", newest, kept.Rows[0].Seq)
	}
	if got := strings.TrimSuffix(page.Result, "\n"); got != strings.TrimSuffix(kept.Result, "\n") {
		return fmt.Sprintf("the result is %q want %q", got, kept.Result)
	}
	for i, panel := range page.Panels {
		if len(panel.Counts) != len(kept.Tracks) {
			return fmt.Sprintf("%s has %d tracks want %d", panel.Algorithm, len(panel.Counts), len(kept.Tracks))
		}
		var last *answer
		for k, track := range kept.Tracks {
			g := track.Gates[i]
			c := panel.Counts[k]
			got := panel.Algorithm + strings.ReplaceAll(c.Allowed+"/"+c.Denied+"/"+c.Undecided+"/"+c.Most, ",", "")
			if want := fmt.Sprintf("%s%d/%d/%d/%d", g.Algorithm, g.Allowed, g.Denied, g.Undecided, g.Most); got != want {
				return fmt.Sprintf("counts: got %s want %s", got, want)
			}
			if g.Last != nil && (last == nil || g.Last.Seq > last.Seq) {
				last = g.Last
			}
		}
		if differ := panelDifference(panel.Seq, panel.Facts, panel.Verdict, panel.Fields, last); differ != "" {
			return panel.Algorithm + ": " + differ
		}
	}
	return ""
}

func panelDifference(seq int64, facts map[string]string, verdict, fields string, last *answer) string {
	if last == nil {
		if verdict != "no requests yet" {
			return "an answer is shown that there was not: " + verdict
		}
		return ""
	}
	want := map[string]string{
		"remaining": fmt.Sprint(last.Remaining), "retry_after_us": fmt.Sprint(last.RetryUS),
		"reset_after_us": fmt.Sprint(last.ResetUS), "delay_us": fmt.Sprint(last.DelayUS),
	}
	http := strings.TrimSuffix(verdict+"\n"+fields, "\n")
	if seq != last.Seq || fmt.Sprint(facts) != fmt.Sprint(want) || http != strings.Join(last.Fields, "\n") {
		return fmt.Sprintf("the last answer: got %d %v %s %s want %+v", seq, facts, verdict, fields, last)
	}
	return ""
}

// places are the positions of the parts of the page. Requests must not move them,
// except for what is below the table that they fill.
const places = `[...document.querySelectorAll('main > :not(#glance), .panel > *')].map((e) => {
	const { top, left } = e.getBoundingClientRect();
	return [e.id || e.className || e.tagName, Math.round(left), Math.round(top + scrollY)].join(' ');
})`

// drawn reports for each chart whether it contains the colours of allowed and of denied
// requests.
const drawn = `(() => {
	const probe = document.createElement('i');
	document.body.append(probe);
	const inks = ['accent', 'denied'].map((name) => {
		probe.style.color = 'var(--' + name + ')';
		return getComputedStyle(probe).color.match(/[0-9]+/g).slice(0, 3).map(Number);
	});
	probe.remove();
	return [...document.querySelectorAll('.chart')].map((c) => {
		const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', { willReadFrequently: true });
		copy.drawImage(c, 0, 0); // reading the page's own canvas repeatedly causes a warning
		const data = copy.getImageData(0, 0, c.width, c.height).data;
		return inks.map((ink) => {
			for (let i = 0; i < data.length; i += 4) {
				if (data[i + 3] > 200 && ink.every((v, k) => Math.abs(data[i + k] - v) < 24)) return 'yes';
			}
			return 'no';
		}).join();
	});
})()`

// pale returns the texts with too little contrast for WCAG AA.
const pale = `(() => {
	const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
	const rgba = (color) => {
		canvas.clearRect(0, 0, 1, 1);
		canvas.fillStyle = color;
		canvas.fillRect(0, 0, 1, 1);
		return [...canvas.getImageData(0, 0, 1, 1).data];
	};
	const linear = (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
	const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const c = rgba(getComputedStyle(e).backgroundColor);
			if (c[3] === 255) return c;
		}
		return [255, 255, 255];
	};
	const bad = new Set();
	for (const e of document.querySelectorAll('body *')) {
		const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
		if (!own || !e.checkVisibility() || e.disabled || e.tagName === 'NOSCRIPT') continue;
		const [a, b] = [light(rgba(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < 4.5) bad.add(e.tagName + '.' + e.className + ' ' + ratio.toFixed(2) + ' ' + e.textContent.trim().slice(0, 30));
	}
	return [...bad];
})()`
