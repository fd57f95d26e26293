package rlsapi_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/memstore"
)

// A file of cases is one timeline on one new store. Its sections:
//
//	-- config [merge] --     begins a new configuration of the files that follow
//	-- file NAME --          a configuration file of envoyproxy/ratelimit
//	-- cases [option …] --   one case a line: T DOMAIN [hits=N] [ENTRIES] … => ANSWER
//
// T is a time in seconds. ENTRIES are k=v …, after optional fields of the descriptor:
// @hits=N, @negative, @limit=N/UNIT. ANSWER is the overall code and, after a bar, one
// status for each descriptor:
//
//	OK                              without current_limit
//	OK 20/MINUTE left 19 reset 40s  code, current_limit, limit_remaining,
//	                                duration_until_reset
//	… name N                        current_limit.name
//
// then, each after two bars, header fields and dynamic metadata as JSON. An error is
// “error CODE: TEXT”.
type caseFile struct {
	t       *testing.T
	path    string
	handler *rlsapi.Handler
	engine  *engine.Engine
	files   []envoyconfig.File
	merge   bool
	count   int
}

const leastCases = 120

func TestCases(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/cases/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	count := 0
	for _, path := range paths {
		e, err := engine.New(memstore.New(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		f := &caseFile{t: t, path: path, engine: e}
		f.run()
		count += f.count
	}
	t.Logf("%d cases", count)
	if count < leastCases {
		t.Errorf("there are %d cases, want at least %d", count, leastCases)
	}
}

func (f *caseFile) run() {
	text, err := os.ReadFile(f.path)
	if err != nil {
		f.t.Fatal(err)
	}
	part, content := "", ""
	for i, line := range strings.Split(string(text)+"\n-- end --", "\n") {
		if header, ok := strings.CutPrefix(line, "-- "); ok {
			f.begin(part, content)
			part, content = strings.TrimSuffix(header, " --"), ""
			if options, ok := strings.CutPrefix(part, "cases"); ok {
				f.open(strings.Fields(options))
			}
			continue
		}
		if strings.HasPrefix(part, "cases") {
			f.line(i+1, line)
		} else {
			content += line + "\n"
		}
	}
}

// begin ends the previous section.
func (f *caseFile) begin(part, content string) {
	switch words := strings.Fields(part); {
	case len(words) == 0:
	case words[0] == "config":
		f.files, f.merge = nil, len(words) > 1
	case words[0] == "file":
		f.files = append(f.files, envoyconfig.File{Name: words[1], Content: []byte(content)})
	}
}

func (f *caseFile) open(options []string) {
	opts := &rlsapi.Options{}
	for _, o := range options {
		switch o {
		case "shadow":
			opts.Shadow = true
		case "quota":
			opts.Quota = true
		case "each":
			opts.Charge = rlsapi.Each
		case "headers":
			opts.Headers = &rlsapi.Headers{}
		case "metadata":
			opts.DynamicMetadata = true
		default:
			f.t.Fatalf("%s: unknown option %s", f.path, o)
		}
	}
	f.handler = mustHandler(f.t, f.engine, opts)
	if f.files == nil {
		return
	}
	config, err := envoyconfig.Parse(f.files, &envoyconfig.ParseOptions{MergeDomains: f.merge})
	if err != nil {
		f.t.Fatalf("%s: %v", f.path, err)
	}
	if err := f.handler.Apply(config); err != nil {
		f.t.Fatalf("%s: %v", f.path, err)
	}
}

func mustHandler(t testing.TB, e *engine.Engine, opts *rlsapi.Options) *rlsapi.Handler {
	t.Helper()
	h, err := rlsapi.New(e, opts)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (f *caseFile) line(n int, line string) {
	if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
		return
	}
	f.count++
	asked, want, ok := strings.Cut(line, " => ")
	if !ok {
		f.t.Fatalf("%s:%d: no answer in %q", f.path, n, line)
	}
	now, req, err := parseCase(asked)
	if err != nil {
		f.t.Fatalf("%s:%d: %v", f.path, n, err)
	}
	resp, err := f.handler.ShouldRateLimitAt(f.t.Context(), now, req)
	if got := shown(resp, err); got != strings.TrimSpace(want) {
		f.t.Errorf("%s:%d: %s\n got %s\nwant %s", f.path, n, asked, got, want)
	}
}

func parseCase(text string) (headgate.Instant, *pb.RateLimitRequest, error) {
	head, descriptors, _ := strings.Cut(text, "[")
	words := strings.Fields(head)
	if len(words) < 2 {
		return 0, nil, errors.New("an instant and a domain are missing")
	}
	seconds, err := time.ParseDuration(words[0] + "s")
	if err != nil {
		return 0, nil, err
	}
	req := &pb.RateLimitRequest{Domain: strings.Trim(words[1], `"`)}
	for _, w := range words[2:] {
		n, err := strconv.ParseUint(strings.TrimPrefix(w, "hits="), 10, 32)
		if err != nil {
			return 0, nil, err
		}
		req.HitsAddend = uint32(n)
	}
	for _, d := range strings.Split(descriptors, "[") {
		if inner, _, ok := strings.Cut(d, "]"); ok {
			one, err := parseDescriptor(inner)
			if err != nil {
				return 0, nil, err
			}
			req.Descriptors = append(req.Descriptors, one)
		}
	}
	return headgate.Instant(seconds.Microseconds()), req, nil
}

func parseDescriptor(text string) (*ratelimit.RateLimitDescriptor, error) {
	d := new(ratelimit.RateLimitDescriptor)
	for _, w := range strings.Fields(text) {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "@hits":
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return nil, err
			}
			d.HitsAddend = wrapperspb.UInt64(n)
		case "@negative":
			d.IsNegativeHits = true
		case "@limit":
			var n uint32
			var unit string
			if _, err := fmt.Sscanf(value, "%d/%s", &n, &unit); err != nil {
				return nil, err
			}
			number, known := typev3.RateLimitUnit_value[unit]
			if !known {
				i, err := strconv.Atoi(unit)
				if err != nil {
					return nil, err
				}
				number = int32(i)
			}
			d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: typev3.RateLimitUnit(number)}
		default:
			d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: name, Value: value})
		}
	}
	return d, nil
}

// shown formats a response like the cases.
func shown(resp *pb.RateLimitResponse, err error) string {
	if err != nil {
		return "error " + status.Code(err).String() + ": " + status.Convert(err).Message()
	}
	text := resp.GetOverallCode().String()
	for _, s := range resp.GetStatuses() {
		text += " | " + shownStatus(s)
	}
	for i, h := range resp.GetResponseHeadersToAdd() {
		if i == 0 {
			text += " ||"
		}
		text += " " + h.GetKey() + ": " + h.GetValue()
	}
	if resp.GetDynamicMetadata() != nil {
		body, _ := protojson.Marshal(resp.GetDynamicMetadata())
		text += " || " + strings.NewReplacer(", ", ",", `": `, `":`).Replace(string(body))
	}
	return text
}

func shownStatus(s *pb.RateLimitResponse_DescriptorStatus) string {
	code := strings.TrimSuffix(s.GetCode().String(), "_LIMIT")
	l := s.GetCurrentLimit()
	if l == nil {
		if s.GetLimitRemaining() > 0 {
			return fmt.Sprintf("%s left %d", code, s.GetLimitRemaining())
		}
		return code
	}
	text := fmt.Sprintf("%s %d/%s left %d reset %s", code, l.GetRequestsPerUnit(), l.GetUnit(), s.GetLimitRemaining(),
		s.GetDurationUntilReset().AsDuration())
	if l.GetName() != "" {
		text += " name " + l.GetName()
	}
	return text
}
