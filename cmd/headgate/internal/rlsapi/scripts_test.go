package rlsapi_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
)

const scriptsFolder = "../../testdata/ratelimit/"

// script is an end-to-end script of envoyproxy/ratelimit: the requests that Envoy sends
// for its steps.
type script struct {
	Name  string
	Steps []scriptStep
}

type scriptStep struct {
	Ask     []string // descriptors, such as “key=value key=value”
	Hits    *uint64  // default 1
	Want    string   // overall code; empty if any is accepted
	Service string   // name in the dynamic metadata
	Wait    string   // time that passes; the other fields are then empty
}

func (s *scriptStep) request() *pb.RateLimitRequest {
	req := &pb.RateLimitRequest{Domain: "rl"}
	for _, text := range s.Ask {
		d := new(ratelimit.RateLimitDescriptor)
		for entry := range strings.FieldsSeq(text) {
			key, value, _ := strings.Cut(entry, "=")
			d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		if s.Hits != nil {
			d.HitsAddend = wrapperspb.UInt64(*s.Hits)
		}
		req.Descriptors = append(req.Descriptors, d)
	}
	return req
}

// TestScripts: in mode Each, the end-to-end scripts of envoyproxy/ratelimit pass,
// including the steps after a minute.
func TestScripts(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile(scriptsFolder + "scripts/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(scriptsFolder + "scripts.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Scripts []script }
	if err := json.Unmarshal(text, &file); err != nil || len(file.Scripts) != 8 {
		t.Fatalf("%d scripts, error %v; want 8", len(file.Scripts), err)
	}
	for _, script := range file.Scripts {
		t.Run(script.Name, func(t *testing.T) {
			h := open(t, nil, string(rules), &rlsapi.Options{Charge: rlsapi.Each, DynamicMetadata: true})
			now := headgate.Instant(1_700_000_000_000_000)
			for i, step := range script.Steps {
				if step.Wait != "" {
					wait, err := time.ParseDuration(step.Wait)
					if err != nil {
						t.Fatal(err)
					}
					now += headgate.Instant(wait.Microseconds())
					continue
				}
				resp, err := h.ShouldRateLimitAt(t.Context(), now, step.request())
				if err != nil {
					t.Fatal(err)
				}
				service := resp.GetDynamicMetadata().GetFields()["metadata"].GetStructValue().GetFields()["service_with_quota"].
					GetStructValue().GetFields()["name"].GetStringValue()
				if step.Want != "" && resp.GetOverallCode().String() != step.Want || step.Service != "" && service != step.Service {
					t.Errorf("step %d: %q: got %v, service %q; want %s, service %q",
						i+1, step.Ask, resp.GetOverallCode(), service, step.Want, step.Service)
				}
			}
		})
	}
}
