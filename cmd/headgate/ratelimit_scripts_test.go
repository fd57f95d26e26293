package main

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

// ratelimitScript is an end-to-end script of envoyproxy/ratelimit: the requests that
// Envoy sends for its steps.
type ratelimitScript struct {
	Name      string
	OverLimit map[string]int `json:"over_limit"` // values of the metric at the end, by key
	Steps     []struct {
		Ask     []string // descriptors
		Hits    *uint64  // default 1
		Want    string   // overall code; empty if any is accepted
		Left    *uint32  // remaining hits of the first descriptor
		Service string   // name in the dynamic metadata
		Wait    string   // time that passes; the other fields are then empty
	}
}

func ratelimitScripts(t *testing.T) []ratelimitScript {
	t.Helper()
	text, err := os.ReadFile("testdata/ratelimit/scripts.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Scripts []ratelimitScript }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Scripts) != 8 {
		t.Fatalf("%d scripts; want 8", len(file.Scripts))
	}
	return file.Scripts
}

// The end-to-end scripts of envoyproxy/ratelimit pass with its variables alone, up to the
// first step in which time passes. Package rlsapi plays the rest.
func TestRatelimitScripts(t *testing.T) {
	t.Parallel()
	root := rulesRoot(t, "testdata/ratelimit/scripts")
	for _, script := range ratelimitScripts(t) {
		t.Run(script.Name, func(t *testing.T) {
			t.Parallel()
			for { // again, if a window of a minute ended during the script
				started := minute()
				p := replaceRatelimit(t, "RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit", "RESPONSE_DYNAMIC_METADATA=true",
					"REDIS_URL="+testserver.Redis(t).Addr())
				wrong := p.play(&script)
				if minute() != started {
					continue
				}
				for _, text := range wrong {
					t.Error(text)
				}
				return
			}
		})
	}
}

func minute() int64 { return time.Now().Unix() / 60 }

// play returns the steps whose response is not as the script expects.
func (p *replacement) play(script *ratelimitScript) (wrong []string) {
	p.t.Helper()
	for i, step := range script.Steps {
		if step.Wait != "" {
			break
		}
		hits := uint64(1)
		if step.Hits != nil {
			hits = *step.Hits
		}
		resp := p.mustAsk("rl", hits, step.Ask...)
		service := resp.GetDynamicMetadata().GetFields()["metadata"].GetStructValue().GetFields()["service_with_quota"].
			GetStructValue().GetFields()["name"].GetStringValue()
		if step.Want != "" && resp.GetOverallCode().String() != step.Want || step.Service != "" && service != step.Service ||
			step.Left != nil && resp.GetStatuses()[0].GetLimitRemaining() != *step.Left {
			wrong = append(wrong, fmt.Sprintf("step %d: %v: got %s, service %q, want %+v", i+1, step.Ask, summary(resp), service, step))
		}
	}
	for key, want := range script.OverLimit {
		if got := p.hits("over_limit", "rl", key); got != want {
			wrong = append(wrong, fmt.Sprintf("over_limit of %s: got %d want %d", key, got, want))
		}
	}
	return wrong
}
