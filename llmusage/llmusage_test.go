package llmusage_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/llmusage"
	"github.com/headgate/headgate/memstore"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// openAIStream is a stream of OpenAI's chat completions with include_usage, abbreviated.
const openAIStream = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":null}

data: {"id":"c1","choices":[{"index":0,"delta":{"content":"Hello \"usage\": {\"completion_tokens\": 1}"}}],"usage":null}

data: {"id":"c1","choices":[{"index":0,"delta":{"content":" world"}}],"usage":null}

data: {"id":"c1","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,"prompt_tokens_details":{"cached_tokens":64}}}

data: [DONE]

`

// anthropicStream is a stream of Anthropic's messages, abbreviated.
const anthropicStream = `event: message_start
data: {"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":25,"cache_creation_input_tokens":10,"cache_read_input_tokens":5,"output_tokens":1}}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello, you!!"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}

event: message_stop
data: {"type":"message_stop"}

`

// responsesStream is a stream of OpenAI's responses, abbreviated.
const responsesStream = `event: response.created
data: {"type":"response.created","response":{"id":"r1","usage":null}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","delta":"Hi"}

event: response.completed
data: {"type":"response.completed","response":{"id":"r1","output":[{"usage":{"input_tokens":9999}}],"usage":{"input_tokens":37,"input_tokens_details":{"cached_tokens":30},"output_tokens":11,"total_tokens":48}}}

`

// tracked is an answer that is read with a hold on 1,000,000 tokens, of which 500 are
// held.
type tracked struct {
	opts   llmusage.Options
	status int
	header http.Header
	body   io.Reader
}

// run reads the answer as the function read does, and returns the result and the tokens
// that are charged after it.
func (c *tracked) run(t *testing.T, read func(io.ReadCloser)) (llmusage.Result, int64) {
	t.Helper()
	policy := headgate.MustNamedPolicy("tokens", "1000000/1h")
	policy.Algorithm = headgate.FixedWindow
	l, err := headgate.New(memstore.New(nil), policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.UnixMicro(1_767_268_800_000_000)
	hold, err := l.HoldAt(t.Context(), now, "k", 500, time.Minute)
	if err != nil || !hold.OK() {
		t.Fatal(hold, err)
	}
	var results []llmusage.Result
	opts := c.opts
	opts.Estimate = []int64{500}
	opts.Cost = func(u llmusage.Usage) []int64 { return []int64{u.Total()} }
	opts.Done = func(r llmusage.Result) { results = append(results, r) }
	opts.Now = func() time.Time { now = now.Add(time.Second); return now }
	resp := &http.Response{StatusCode: max(c.status, http.StatusOK), Header: c.header, Body: io.NopCloser(c.body)}
	ctx, cancel := context.WithCancel(t.Context())
	if err := llmusage.Track(ctx, resp, hold, &opts); err != nil {
		t.Fatal(err)
	}
	cancel() // the client has disconnected: the commit is made nevertheless
	read(resp.Body)
	_ = resp.Body.Close()
	if len(results) != 1 {
		t.Fatalf("Done was called %d times, want once", len(results))
	}
	d, err := l.PeekAt(t.Context(), now, "k", 0)
	if err != nil {
		t.Fatal(err)
	}
	return results[0], d.Limit - d.Remaining
}

func readAll(r io.ReadCloser) { _, _ = io.Copy(io.Discard, r) }

func header(kind string, more ...string) http.Header {
	h := http.Header{"Content-Type": {kind}}
	for i := 0; i < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

var stream = header("text/event-stream; charset=utf-8")

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.String()
}

// The usage of each provider is found, however the answer is divided into reads.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		header http.Header
		body   string
		want   llmusage.Usage
		events int64
	}{
		{"OpenAI, stream", stream, openAIStream, llmusage.Usage{Input: 36, CacheRead: 64, Output: 7}, 5},
		{"OpenAI, stream with CRLF", stream, strings.ReplaceAll(openAIStream, "\n", "\r\n"), llmusage.Usage{Input: 36, CacheRead: 64, Output: 7}, 5},
		{"OpenAI, stream with CR", stream, strings.ReplaceAll(openAIStream, "\n", "\r"), llmusage.Usage{Input: 36, CacheRead: 64, Output: 7}, 5},
		{"OpenAI, responses", stream, responsesStream, llmusage.Usage{Input: 7, CacheRead: 30, Output: 11}, 3},
		{"OpenAI, gzip", header("text/event-stream", "Content-Encoding", "gzip"), zipped(openAIStream), llmusage.Usage{Input: 36, CacheRead: 64, Output: 7}, 5},
		{"Anthropic, stream", stream, anthropicStream, llmusage.Usage{Input: 25, CacheWrite: 10, CacheRead: 5, Output: 15}, 5},
		{
			"OpenAI, JSON", header("application/json"),
			`{"choices":[{"message":{"content":"x","usage":{"prompt_tokens":1}}}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`,
			llmusage.Usage{Input: 3, Output: 4},
			0,
		},
		{
			"Anthropic, JSON, usage first", header("application/json"),
			` { "usage" : { "input_tokens" : 3 , "output_tokens" : 4, "server_tool_use": {"n": [1, {"a": "}"}]} } , "content" : [ { "text" : "{" } ] } `,
			llmusage.Usage{Input: 3, Output: 4},
			0,
		},
		{
			"data in several lines", stream, "data: {\"usage\":\ndata: {\"prompt_tokens\": 1,\ndata:\"completion_tokens\":2}}\n\n",
			llmusage.Usage{Input: 1, Output: 2},
			1,
		},
		{
			"negative and huge numbers", header("application/json"), `{"usage":{"prompt_tokens":-5,"completion_tokens":9223372036854775807}}`,
			llmusage.Usage{Output: headgate.MaxWindowUnits / 4},
			0,
		},
		{
			"an event that was cut off before", stream, "data: {\"a\": [[[\"\n\ndata: {\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n",
			llmusage.Usage{Input: 1, Output: 2},
			2,
		},
	} {
		for name, reader := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "half": iotest.HalfReader, "one byte": iotest.OneByteReader, "with the error": iotest.DataErrReader,
		} {
			answer := tracked{header: c.header, body: reader(strings.NewReader(c.body))}
			r, charged := answer.run(t, readAll)
			if r.Usage != c.want || !r.Reported || r.Err != nil || r.Events != c.events || charged != min(c.want.Total(), 1_000_000) {
				t.Errorf("%s, %s: got %+v, charged %d want %+v in %d events", c.name, name, r, charged, c.want, c.events)
			}
		}
	}
}

// An answer is copied to the client as it is.
func TestAnswerIsUnchanged(t *testing.T) {
	t.Parallel()
	for _, body := range []string{openAIStream, zipped(openAIStream), "", "\x00not JSON"} {
		for _, h := range []http.Header{stream, header("text/event-stream", "Content-Encoding", "gzip"), header("application/json"), header("text/html")} {
			var got bytes.Buffer
			answer := tracked{header: h, body: iotest.HalfReader(strings.NewReader(body))}
			answer.run(t, func(r io.ReadCloser) { _, _ = io.Copy(&got, r) })
			if got.String() != body {
				t.Errorf("%v: the client got %q want %q", h, got.String(), body)
			}
		}
	}
}

// An answer without usage is committed as configured, never with nothing.
func TestAnswersWithoutUsage(t *testing.T) {
	t.Parallel()
	broken := func(text string) io.Reader {
		return io.MultiReader(strings.NewReader(text), iotest.ErrReader(errors.New("connection reset")))
	}
	aborted := openAIStream[:strings.Index(openAIStream, `data: {"id":"c1","choices":[],"usage":{`)]
	begun := anthropicStream[:strings.Index(anthropicStream, "event: message_delta")]
	counted := llmusage.Options{Aborted: llmusage.CommitCounted, Input: 80}
	for _, c := range []struct {
		name    string
		answer  tracked
		charged int64
	}{
		{"aborted", tracked{header: stream, body: broken(aborted)}, 500},
		{"aborted after the first event of Anthropic", tracked{header: stream, body: broken(begun)}, 500},
		{"no usage", tracked{header: stream, body: strings.NewReader(aborted)}, 500},
		{"another type", tracked{header: header("text/html"), body: strings.NewReader("<p>")}, 500},
		{"an unknown encoding", tracked{header: header("application/json", "Content-Encoding", "br"), body: strings.NewReader("x")}, 500},
		{"gzip that is none", tracked{header: header("application/json", "Content-Encoding", "gzip"), body: strings.NewReader("{}")}, 500},
		{"counted, input estimated, 49 bytes of output", tracked{opts: counted, header: stream, body: broken(aborted)}, 80 + 13},
		{"counted, input reported, 12 bytes of output", tracked{opts: counted, header: stream, body: broken(begun)}, 25 + 10 + 5 + 3},
		{"counted, another type", tracked{opts: counted, header: header("text/html"), body: strings.NewReader("<p>")}, 500},
		{"failed", tracked{status: 500, header: header("application/json"), body: strings.NewReader(`{"error":{}}`)}, 0},
		{"failed, with costs", tracked{opts: llmusage.Options{Failed: []int64{3}}, status: 429, header: header("text/plain"), body: strings.NewReader("")}, 3},
		{"failed, with usage", tracked{status: 500, header: header("application/json"), body: strings.NewReader(`{"usage":{"output_tokens":9}}`)}, 9},
		{
			"a usage object above 4 KiB",
			tracked{header: header("application/json"), body: strings.NewReader(`{"usage":{"output_tokens":9,"x":"` + strings.Repeat("x", 5000) + `"}}`)},
			500,
		},
		{"usage in another object", tracked{header: header("application/json"), body: strings.NewReader(`{"tool":{"usage":{"output_tokens":9}}}`)}, 500},
		{"usage after a message", tracked{header: header("application/json"), body: strings.NewReader(`{"message":{"a":1},"x":{"usage":{"output_tokens":9}}}`)}, 500},
		{"usage deeper in a message", tracked{header: header("application/json"), body: strings.NewReader(`{"message":{"x":{"usage":{"output_tokens":9}}}}`)}, 500},
		{"usage in a list", tracked{header: header("application/json"), body: strings.NewReader(`[{"usage":{"output_tokens":9}}]`)}, 500},
		{"a usage that is no object", tracked{header: header("application/json"), body: strings.NewReader(`{"usage":[{"output_tokens":9}]}`)}, 500},
		{"a fraction", tracked{header: header("application/json"), body: strings.NewReader(`{"usage":{"output_tokens":9.5}}`)}, 500},
	} {
		r, charged := c.answer.run(t, readAll)
		if charged != c.charged || r.Err != nil {
			t.Errorf("%s: got %d charged, %+v want %d", c.name, charged, r, c.charged)
		}
	}
}

// A usage that a provider reports while the answer goes on is not that of the whole
// answer. A stream that is cut off after it costs the same as one without usage.
func TestUsageBeforeEnd(t *testing.T) {
	t.Parallel()
	const event = `data: {"choices":[{"delta":{"content":"%s"}}],"usage":{"prompt_tokens":30,"completion_tokens":%d}}` + "\n\n"
	begin, part := fmt.Sprintf(event, "", 0), fmt.Sprintf(event, "Hello, you!!", 3)
	for _, c := range []struct {
		name    string
		body    string
		whole   bool
		options llmusage.Options
		charged int64
	}{
		{"at the beginning", begin, false, llmusage.Options{}, 500},
		{"at the beginning, output follows", begin + `data: {"choices":[{"delta":{"content":"Hello"}}]}` + "\n\n", false, llmusage.Options{}, 500},
		{"with output", begin + part, false, llmusage.Options{}, 500},
		{"with output, counted", begin + part, false, llmusage.Options{Aborted: llmusage.CommitCounted}, 33},
		{"with output, read to the end", begin + part, true, llmusage.Options{}, 33},
		{"after the output", begin + part + fmt.Sprintf(event, "", 4), false, llmusage.Options{}, 34},
		{"of a response with its output", responsesStream, false, llmusage.Options{}, 48},
	} {
		var body io.Reader = strings.NewReader(c.body)
		if !c.whole {
			body = io.MultiReader(body, iotest.ErrReader(errors.New("connection reset")))
		}
		answer := tracked{opts: c.options, header: stream, body: body}
		if r, charged := answer.run(t, readAll); charged != c.charged || r.Err != nil {
			t.Errorf("%s: got %d charged, %+v want %d", c.name, charged, r, c.charged)
		}
	}
}

// A client that disconnects in the middle of an answer pays the estimate.
func TestClosedEarly(t *testing.T) {
	t.Parallel()
	for _, h := range []http.Header{stream, header("text/event-stream", "Content-Encoding", "gzip")} {
		body := openAIStream
		if h.Get("Content-Encoding") != "" {
			body = zipped(body)
		}
		answer := tracked{header: h, body: iotest.OneByteReader(strings.NewReader(body))}
		_, charged := answer.run(t, func(r io.ReadCloser) {
			_, _ = io.CopyN(io.Discard, r, 50)
			_ = r.Close()
		})
		if charged != 500 {
			t.Errorf("%v: got %d charged want 500", h, charged)
		}
	}
}

// The hold of a long answer is extended while it is read, and one that is not expires.
func TestExtend(t *testing.T) {
	t.Parallel()
	for extend, want := range map[time.Duration]error{time.Minute: nil, 0: headgate.ErrExpiredHold} {
		answer := tracked{opts: llmusage.Options{Extend: extend}, header: stream, body: iotest.OneByteReader(strings.NewReader(openAIStream))}
		if extend == 0 {
			answer.body = strings.NewReader(openAIStream)
			now := time.UnixMicro(1_767_268_800_000_000)
			answer.opts.Now = func() time.Time { now = now.Add(time.Hour); return now }
		}
		r, _ := answer.runAsConfigured(t)
		if !errors.Is(r.Err, want) || want == nil && r.Err != nil {
			t.Errorf("Extend %v: got %v want %v", extend, r.Err, want)
		}
	}
}

// runAsConfigured is like run, with opts.Now if it is set.
func (c *tracked) runAsConfigured(t *testing.T) (r llmusage.Result, err error) {
	t.Helper()
	policy := headgate.MustNamedPolicy("tokens", "1000000/1h")
	l, err := headgate.New(memstore.New(nil), policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.UnixMicro(1_767_268_800_000_000)
	hold, err := l.HoldAt(t.Context(), now, "k", 500, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	opts := c.opts
	opts.Estimate, opts.Cost = []int64{500}, func(u llmusage.Usage) []int64 { return []int64{u.Total()} }
	opts.Done = func(result llmusage.Result) { r = result }
	if opts.Now == nil {
		opts.Now = func() time.Time { now = now.Add(time.Second); return now }
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: c.header, Body: io.NopCloser(c.body)}
	if err := llmusage.Track(t.Context(), resp, hold, &opts); err != nil {
		t.Fatal(err)
	}
	readAll(resp.Body)
	return r, resp.Body.Close()
}

func TestTrackErrors(t *testing.T) {
	t.Parallel()
	l, err := headgate.New(memstore.New(nil), headgate.MustPolicy("1/s"), nil)
	if err != nil {
		t.Fatal(err)
	}
	denied, err := l.Hold(t.Context(), "k", 5, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	cost := func(llmusage.Usage) []int64 { return []int64{1} }
	for name, c := range map[string]struct {
		hold *headgate.Hold
		opts *llmusage.Options
	}{
		"no options":  {denied, nil},
		"no cost":     {denied, &llmusage.Options{Estimate: []int64{1}}},
		"no estimate": {denied, &llmusage.Options{Cost: cost}},
		"no hold":     {nil, &llmusage.Options{Estimate: []int64{1}, Cost: cost}},
		"denied hold": {denied, &llmusage.Options{Estimate: []int64{1}, Cost: cost}},
	} {
		if err := llmusage.Track(t.Context(), &http.Response{Body: http.NoBody}, c.hold, c.opts); !errors.Is(err, llmusage.ErrInvalidOptions) {
			t.Errorf("%s: got %v want ErrInvalidOptions", name, err)
		}
	}
}

// Reading an answer allocates no memory in proportion to its size.
func TestMemoryIsBounded(t *testing.T) {
	event := `data: {"choices":[{"delta":{"content":"` + strings.Repeat("x", 1000) + `"}}]}` + "\n\n"
	long := `{"content":"` + strings.Repeat("y", 1<<20) + `"}`
	for name, c := range map[string]struct {
		header http.Header
		body   io.Reader
	}{
		"many events": {stream, strings.NewReader(strings.Repeat(event, 5000))},
		"one event":   {stream, strings.NewReader("data: " + long + "\n\n")},
		"one line":    {stream, strings.NewReader(strings.Repeat("z", 1<<20))},
		"JSON":        {header("application/json"), strings.NewReader(long)},
		"depth":       {header("application/json"), strings.NewReader(strings.Repeat(`{"a":[`, 1<<18))},
	} {
		policy := headgate.MustNamedPolicy("tokens", "1000000/1h")
		l, err := headgate.New(memstore.New(nil), policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		hold, err := l.Hold(t.Context(), "k", 500, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		resp := &http.Response{StatusCode: http.StatusOK, Header: c.header, Body: io.NopCloser(c.body)}
		opts := &llmusage.Options{Estimate: []int64{500}, Cost: func(u llmusage.Usage) []int64 { return []int64{u.Total()} }}
		if err := llmusage.Track(t.Context(), resp, hold, opts); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 32<<10)
		got := testing.AllocsPerRun(1, func() {
			for range 5 {
				_, _ = resp.Body.Read(buf)
			}
		})
		if got > 3 {
			t.Errorf("%s: got %v allocations in 5 reads want at most 3", name, got)
		}
		readAll(resp.Body)
		_ = resp.Body.Close()
	}
}

// FuzzAnswer checks that no answer makes the reader fail, and that the usage that it
// finds does not depend on how the answer is divided into reads.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{openAIStream, anthropicStream, responsesStream, `{"usage":{"output_tokens":1}}`, "data: {\"usage\":{}}\r\r", "{{{{\"usage\":{"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, body string, events bool) {
		h := header("application/json")
		if events {
			h = stream
		}
		var all []llmusage.Result
		for _, reader := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
			answer := tracked{opts: llmusage.Options{Aborted: llmusage.CommitCounted}, header: h, body: reader(strings.NewReader(body))}
			r, _ := answer.run(t, readAll)
			if r.Usage.Total() < 0 {
				t.Errorf("got the negative usage %+v", r.Usage)
			}
			all = append(all, r)
		}
		if a, b := all[0], all[1]; a.Usage != b.Usage || a.Events != b.Events || a.Reported != b.Reported || !slices.Equal(a.Actual, b.Actual) {
			t.Errorf("read as a whole: got %+v, read byte by byte: %+v", a, b)
		}
	})
}
