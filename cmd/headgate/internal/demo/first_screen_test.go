package demo_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
	"github.com/headgate/headgate/cmd/headgate/internal/demo"
)

// outside returns the panels that are not completely on the screen.
const outside = `[...document.querySelectorAll('.panel')].filter((p) => {
	const { top, bottom } = p.getBoundingClientRect();
	return top < 0 || bottom > innerHeight;
}).map((p) => p.dataset.algorithm + ' ends at ' + Math.round(p.getBoundingClientRect().bottom))`

// layoutShift is the cumulative layout shift since the page was loaded.
const layoutShift = `new Promise((done) => new PerformanceObserver((list) => done(
	list.getEntries().filter((e) => !e.hadRecentInput).reduce((sum, e) => sum + e.value, 0),
)).observe({ type: 'layout-shift', buffered: true }) ?? setTimeout(() => done(0), 500))`

// TestFirstScreen: without a click, the page plays a scenario and shows on one screen
// how the algorithms differ. After that it is idle.
func TestFirstScreen(t *testing.T) {
	t.Parallel()
	s := serve(t, demo.Options{})
	b := chromium.Start(t, chromium.View{Width: 1180, Height: 720})
	load(t, b, s.URL)
	b.Until(t, "document.getElementById('headline').textContent !== ''")
	v := visit(t, b, s.URL)
	kept, _ := v.mustAgree(t, "the scenario that starts on load")
	if kept.Result == "" || kept.Sent != 20 {
		t.Errorf("the scenario on load: got %d requests and result %q", kept.Sent, kept.Result)
	}
	mustBeOnScreen(t, b)
	b.Until(t, "document.querySelector('[data-algorithm=fixed_window] .peak').classList.contains('over')")
	if chromium.Eval[bool](t, b, "document.querySelector('[data-algorithm=sliding_log] .peak').classList.contains('over')") {
		t.Error("the sliding log is above the limit")
	}
	mustNotShift(t, b)
	b.Click(t, "#reset") // nothing refills after that
	b.Until(t, "document.documentElement.dataset.sent === '0'")
	b.Until(t, "document.documentElement.dataset.picture === 'stopped'")
	t.Run("idle", func(t *testing.T) { mustBeIdle(t, b) })
	t.Run("crosshair", v.testCrosshair)
	t.Run("inspector", v.testInspector)
	t.Run("own traffic", v.testOwnTraffic)
	b.Click(t, "[data-scenario=servers]")
	b.Until(t, "document.getElementById('panels').classList.contains('two')")
	mustBeOnScreen(t, b)
	mustBeQuiet(t, b)
}

// mustBeOnScreen checks that all six panels are completely on the screen.
func mustBeOnScreen(t *testing.T, b *chromium.Browser) {
	t.Helper()
	if panels := chromium.Eval[[]string](t, b, outside); len(panels) > 0 && len(order) == 6 {
		t.Errorf("not on the screen: %q", panels)
	}
}

// TestFirstScreenOfPhone: a phone shows small charts of all algorithms, and the panel
// that the scenario is about.
func TestFirstScreenOfPhone(t *testing.T) {
	t.Parallel()
	s := serve(t, demo.Options{})
	b := chromium.Start(t, chromium.View{Width: 390, Height: 844, Phone: true, ReducedMotion: true})
	load(t, b, s.URL)
	b.Until(t, "document.getElementById('headline').textContent !== ''")
	got := chromium.Eval[string](t, b, `[...document.querySelectorAll('.panel')].filter((p) => p.checkVisibility()).map((p) => p.dataset.algorithm).join()`)
	if got != "fixed_window" {
		t.Errorf("the visible panels: got %s want the fixed window", got)
	}
	top := chromium.Eval[float64](t, b, "document.querySelector('.panel.chosen canvas').getBoundingClientRect().top")
	if bar := chromium.Eval[float64](t, b, "document.querySelector('.actions').getBoundingClientRect().top"); len(order) == 6 && top > bar-60 {
		t.Errorf("the chart begins at %v px, covered by the bar at %v px", top, bar)
	}
	b.Click(t, "[data-tab=sliding_log]")
	b.Until(t, "document.querySelector('[data-algorithm=sliding_log]').checkVisibility() && !document.querySelector('.last[data-of=sliding_log]').hidden")
	mustNotShift(t, b)
	mustBeQuiet(t, b)
}

func mustNotShift(t *testing.T, b *chromium.Browser) {
	t.Helper()
	if shift := chromium.Eval[float64](t, b, layoutShift); shift >= 0.1 {
		t.Errorf("cumulative layout shift: got %v want less than 0.1", shift)
	}
}

var measureIdle = flag.Bool("idle", false, "measure the CPU time of the idle page, on an otherwise idle machine")

// mustBeIdle measures the CPU time of the main thread while nothing happens, if the flag
// -idle is set: the result depends on the machine.
func mustBeIdle(t *testing.T, b *chromium.Browser) {
	if !*measureIdle {
		return
	}
	enable := performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}
	if _, err := chromedp.Call(b.Context, performance.Enable, enable); err != nil {
		t.Fatal(err)
	}
	const span = 5 * time.Second
	for deadline := time.Now().Add(deadline); ; { // a busy machine makes the same work take longer
		before := taskSeconds(t, b)
		time.Sleep(span)
		used := taskSeconds(t, b) - before
		if used <= 0.05*span.Seconds() {
			t.Logf("the main thread was busy for %.3f s of %v", used, span)
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the main thread of an idle page was busy for %.3f s of %v; want at most 5 %%", used, span)
		}
	}
}

func taskSeconds(t *testing.T, b *chromium.Browser) float64 {
	t.Helper()
	got, err := chromedp.Call(b.Context, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range got.Metrics {
		if m.Name == "TaskDuration" {
			return m.Value
		}
	}
	t.Fatal("there is no metric TaskDuration")
	return 0
}

// testCrosshair points at an instant, pauses the picture and steps through it.
func (v visitor) testCrosshair(t *testing.T) {
	if got := chromium.Eval[string](t, v.Browser, `(() => {
		const chart = document.querySelector('[data-algorithm=sliding_log] .chart');
		const { left, top, width } = chart.getBoundingClientRect();
		chart.dispatchEvent(new PointerEvent('pointermove', { clientX: left + width / 2, clientY: top + 40, pointerType: 'mouse', bubbles: true }));
		return 'moved';
	})()`); got != "moved" {
		t.Fatal(got)
	}
	v.Until(t, "Math.abs(Number(document.documentElement.dataset.cursor) + 6) < 0.2")
	chromium.Eval[bool](t, v.Browser, "document.querySelector('[data-algorithm=sliding_log] .chart').dispatchEvent(new PointerEvent('pointerleave', { pointerType: 'mouse' }))")
	v.Until(t, "!('cursor' in document.documentElement.dataset)")
	chromium.Eval[bool](t, v.Browser, "(document.activeElement.blur(), true)")
	v.Do(t, chromedp.KeyEvent(" "))
	v.Until(t, "document.documentElement.dataset.picture === 'paused' && document.getElementById('pause').getAttribute('aria-pressed') === 'true'")
	v.Do(t, chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.ArrowRight))
	v.Until(t, "Number(document.documentElement.dataset.cursor) < 0")
	v.Do(t, chromedp.KeyEvent(kb.Escape))
	v.Until(t, "document.documentElement.dataset.picture !== 'paused' && !('cursor' in document.documentElement.dataset)")
}

// testInspector: the inspector shows the panel under the mouse, otherwise the chosen one.
func (v visitor) testInspector(t *testing.T) {
	shows := func(algorithm string) string {
		return "[...document.querySelectorAll('.last')].filter((e) => e.checkVisibility()).map((e) => e.dataset.of).join() === '" + algorithm + "'"
	}
	v.Until(t, shows("fixed_window"))
	const panel = "document.querySelector('.panel[data-algorithm=sliding_log]')"
	chromium.Eval[bool](t, v.Browser, panel+".dispatchEvent(new PointerEvent('pointermove', { pointerType: 'mouse', movementX: 1 }))")
	v.Until(t, shows("sliding_log"))
	chromium.Eval[bool](t, v.Browser, panel+".dispatchEvent(new PointerEvent('pointerleave', { pointerType: 'mouse' }))")
	v.Until(t, shows("fixed_window"))
}

// testOwnTraffic: a click ends the scenario and restores the settings of the user. An
// example of a limit is applied, and the address of the page contains it.
func (v visitor) testOwnTraffic(t *testing.T) {
	v.Click(t, "#one")
	kept := v.tab.until(t, "the user's settings", func(s state) bool { return s.Sent == 1 && s.Playing == "" })
	if kept.Settings.Burst != 20 || kept.Result != "" {
		t.Errorf("after a click: got %+v, result %q; want the first settings", kept.Settings, kept.Result)
	}
	v.mustAgree(t, "a click after a scenario")
	v.Do(t, chromedp.Focus(chromedp.ID("preset")), chromedp.KeyEvent("LLM"), chromedp.KeyEvent(kb.Tab))
	want := v.tab.until(t, "an example", func(s state) bool { return s.Settings.Cost == 800 }).Settings
	const hash = "#rate=10000&period_ms=60000&burst=10000&queue=9999&cost=800&n=20"
	v.Until(t, fmt.Sprintf("location.hash === %q", hash))
	b := chromium.Start(t, chromium.View{Width: 1180, Height: 720})
	load(t, b, v.url+hash)
	other := visit(t, b, v.url)
	other.tab.until(t, "the settings in the address", func(s state) bool {
		want.Key = s.Settings.Key
		return s.Settings == want
	})
}
