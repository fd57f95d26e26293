package bench

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/bench/worker"
)

// reply is a reply of a worker.
type reply struct {
	Result Result
	Error  string
}

func TestWorkerMeasuresOneRoundPerOrder(t *testing.T) {
	var in strings.Builder
	orders := json.NewEncoder(&in)
	for _, message := range []any{
		Job{Peer: "throttled", Case: Case{Keys: 100, Denied: 0.9}},
		Order{Goroutines: 1, Time: time.Millisecond},
		Order{Goroutines: 2, Time: time.Millisecond},
	} {
		if err := orders.Encode(message); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := worker.Serve(strings.NewReader(in.String()), &out, Job.Prepare); err != nil {
		t.Fatal(err)
	}
	replies := json.NewDecoder(strings.NewReader(out.String()))
	var ready reply
	if err := replies.Decode(&ready); err != nil || ready.Error != "" || ready.Result.Checks != 0 {
		t.Errorf("reply to the job: got %+v (%v), want an empty reply", ready, err)
	}
	for round := range 2 {
		var r reply
		if err := replies.Decode(&r); err != nil || r.Error != "" || r.Result.Checks == 0 || r.Result.Denied < 0.5 {
			t.Errorf("round %d: got %+v (%v), want checks with a denial rate of 0.5 or more", round, r, err)
		}
	}
	if err := replies.Decode(&ready); err != io.EOF {
		t.Errorf("after two rounds: got %+v (%v), want EOF", ready, err)
	}
}

func TestWorkerReportsErrorOfInvalidJob(t *testing.T) {
	for _, test := range []struct{ name, job, errorHas string }{
		{"unknown row", `{"Peer":"missing","Case":{"Keys":1}}`, "unknown row"},
		{"many keys for a single-key limiter", `{"Peer":"uber","Case":{"Keys":2}}`, "limits one key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			if err := worker.Serve(strings.NewReader(test.job), &out, Job.Prepare); err != nil {
				t.Fatal(err)
			}
			var r reply
			if err := json.Unmarshal([]byte(out.String()), &r); err != nil || !strings.Contains(r.Error, test.errorHas) {
				t.Errorf("reply to %s: got %q (%v), want an error that contains %q", test.job, out.String(), err, test.errorHas)
			}
		})
	}
}
