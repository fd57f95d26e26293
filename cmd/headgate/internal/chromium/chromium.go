// Package chromium controls a real browser in tests.
package chromium

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// deadline bounds waiting; only a failing test waits this long.
const deadline = time.Minute

// Browser is a Chromium with one tab. It records the requests of the tab and the messages
// in its console. Create it with [Start]. It is closed at the end of the test.
type Browser struct {
	Context  context.Context // of the tab, for package chromedp
	mu       sync.Mutex
	console  []Message
	requests []string
}

// Message is a line of the console, an exception or a failed request.
type Message struct {
	Text string
	URL  string // what the message is about; empty if unknown
}

// Start starts Chromium with a new profile and additional environment variables.
// scripts/setup installs Chromium.
func Start(t testing.TB, v View, env ...string) *Browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("this test opens a page in a real browser: %v; scripts/setup installs it", err)
	}
	flags := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Env(env...),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true))
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), flags...)
	b := &Browser{}
	ctx, stop := chromedp.NewContext(alloc, chromedp.WithListener(b.listen))
	b.Context = ctx
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		stop()
		stopAlloc()
	})
	if err := chromedp.Do(ctx); err != nil { // the browser is closed with the context of the first run: no deadline
		t.Fatal(err)
	}
	b.SetView(t, v)
	return b
}

// listen records requests and what appears in the console.
func (b *Browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		b.console = append(b.console, Message{Text: fmt.Sprintf("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)})
	case *runtime.EventConsoleAPICalled:
		b.console = append(b.console, Message{Text: fmt.Sprintf("console.%s: %s", e.Type, describe(e.Args))})
	case *cdplog.EventEntryAdded:
		b.console = append(b.console, Message{Text: fmt.Sprintf("%s: %s", e.Entry.Level, e.Entry.Text), URL: e.Entry.URL})
	}
}

// describe returns the values or descriptions of the arguments of a message. The
// description of an error contains its stack.
func describe(args []*runtime.RemoteObject) (texts []string) {
	for _, a := range args {
		texts = append(texts, a.Description+string(a.Value))
	}
	return texts
}

// Console returns the messages of the console so far.
func (b *Browser) Console() []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.console)
}

// Requests returns the URLs that the tab has requested so far.
func (b *Browser) Requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}

// Do runs actions within a minute.
func (b *Browser) Do(t testing.TB, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.Context, deadline)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// Eval evaluates an expression on the page, and waits up to a minute for it if it is a
// promise.
func Eval[T any](t testing.TB, b *Browser, expression string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.Context, deadline)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// Until waits up to a minute until an expression is true on the page.
func (b *Browser) Until(t testing.TB, expression string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.Context, deadline)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingInterval(20*time.Millisecond)))
	if err != nil {
		t.Fatalf("waiting for %s: %v", expression, err)
	}
}

// Click clicks an element.
func (b *Browser) Click(t testing.TB, selector string) {
	t.Helper()
	b.Do(t, chromedp.Click(chromedp.CSS(selector)))
}

// Screenshot returns a picture of the viewport in the format PNG.
func (b *Browser) Screenshot(t testing.TB) []byte {
	t.Helper()
	png, err := chromedp.Run(b.Context, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	return png
}
