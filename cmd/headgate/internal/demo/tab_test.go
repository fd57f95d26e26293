package demo_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/demo"
)

// tab is a page from the view of the server: an event stream, and POST requests.
type tab struct {
	url       string
	session   string
	pageState pageState
	resp      *http.Response
	lines     *bufio.Scanner
}

// pageState and the others are the parts of events that tests use.
type pageState struct {
	Session  string
	Settings demo.Settings
	Tracks   []string
	Playing  string
	Code     map[string]struct{ Go, YAML, Curl string }
}

type gateState struct {
	Algorithm                  string
	Allowed, Denied, Undecided int64
	Most                       int64
	Last                       *answer
}

type answer struct {
	Seq       int64    `json:"seq"`
	Allowed   bool     `json:"allowed"`
	Never     bool     `json:"never"`
	Limit     int64    `json:"limit"`
	Remaining int64    `json:"remaining"`
	RetryUS   int64    `json:"retry_after_us"`
	ResetUS   int64    `json:"reset_after_us"`
	DelayUS   int64    `json:"delay_us"`
	Error     string   `json:"error"`
	Fields    []string `json:"fields"`
}

type state struct {
	Settings demo.Settings
	Playing  string
	Result   string
	Epoch    int
	Sent     int64
	Tracks   []struct {
		Name  string
		Gates []gateState
	}
	Rows []struct {
		Seq     int64
		Answers []*answer
	}
}

type frame struct {
	Epoch  int
	Sent   int64
	Tracks []struct{ Gates []gateState }
}

func newTab(t testing.TB, url string) *tab {
	t.Helper()
	p := &tab{url: url}
	resp, err := http.Get(url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	p.resp, p.lines = resp, bufio.NewScanner(resp.Body)
	p.lines.Buffer(nil, 1<<20)
	t.Cleanup(p.close)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the stream: got %s want 200", resp.Status)
	}
	p.next(t, "state", &p.pageState)
	p.session = p.pageState.Session
	return p
}

func (p *tab) close() { p.resp.Body.Close() }

// next reads the next event of a kind.
func (p *tab) next(t testing.TB, kind string, into any) {
	t.Helper()
	for p.lines.Scan() {
		if p.lines.Text() != "event: "+kind {
			continue
		}
		p.lines.Scan()
		data := strings.TrimPrefix(p.lines.Text(), "data: ")
		if err := json.Unmarshal([]byte(data), into); err != nil {
			t.Fatalf("event %s: %v in %.200s", kind, err, data)
		}
		return
	}
	t.Fatalf("the stream ended before an event %s: %v", kind, p.lines.Err())
}

// act posts an action and returns the status and the problem.
func (p *tab) act(t testing.TB, action map[string]any) (int, map[string]string) {
	t.Helper()
	if _, ok := action["session"]; !ok {
		action["session"] = p.session
	}
	body, err := json.Marshal(action)
	if err != nil {
		t.Fatal(err)
	}
	return p.post(t, string(body))
}

func (p *tab) post(t testing.TB, body string) (int, map[string]string) {
	t.Helper()
	resp, err := http.Post(p.url+"/act", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	problem := make(map[string]string)
	if len(text) > 0 {
		if err := json.NewDecoder(bytes.NewReader(text)).Decode(&problem); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return resp.StatusCode, problem
}

func (p *tab) mustAct(t testing.TB, action map[string]any) {
	t.Helper()
	if status, problem := p.act(t, action); status != http.StatusNoContent {
		t.Fatalf("%v: got %d %v want 204", action, status, problem)
	}
}

// set changes some of the settings.
func (p *tab) set(t testing.TB, change func(*demo.Settings)) {
	t.Helper()
	settings := p.state(t).Settings
	change(&settings)
	p.mustAct(t, map[string]any{"do": "set", "settings": settings})
}

// hourly is a limit that refills nothing during a test.
func hourly(rate, queue int64) func(*demo.Settings) {
	return func(s *demo.Settings) { s.Rate, s.Burst, s.Queue, s.PeriodMS = rate, rate, queue, 3_600_000 }
}

func (p *tab) state(t testing.TB) (s state) {
	t.Helper()
	resp, err := http.Get(p.url + "/state?session=" + p.session)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("state: got %s want 200", resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// until reads the state until a condition is met, within the deadline.
func (p *tab) until(t testing.TB, what string, wanted func(state) bool) state {
	t.Helper()
	for deadline := time.Now().Add(deadline); ; {
		s := p.state(t)
		if wanted(s) {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s in vain: %+v", what, s)
		}
		time.Sleep(20 * time.Millisecond) // the traffic needs time
	}
}
