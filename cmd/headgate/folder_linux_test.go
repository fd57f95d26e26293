package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestServiceReportsThatSavingFails limits the size of the files of a running service, so
// that its state cannot be saved, and later removes the limit. Requests are decided all
// the time.
func TestServiceReportsThatSavingFails(t *testing.T) {
	t.Parallel()
	p := launch(t, 2, "--store", "memory://"+filepath.Join(t.TempDir(), "state"),
		"--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--resp-addr", "off", "--grpc-addr", "off")
	limitFiles := func(bytes uint64) {
		var limit unix.Rlimit
		if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
			t.Fatal(err)
		}
		limit.Cur = min(bytes, limit.Max)
		if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
			t.Fatal(err)
		}
	}
	// reports is true if all outputs that are documented report whether saving fails.
	reports := func(fails bool) func() bool {
		return func() bool {
			if answer, err := check(p.addrs["http"], "1"); err != nil || !answer.Allowed {
				t.Fatalf("check: got %+v, error %v want allowed", answer, err)
			}
			code, ready := p.operator(t, "/readyz")
			_, metrics := p.operator(t, "/metrics")
			saving := 1
			if fails {
				saving = 0
			}
			return code == 200 && strings.Contains(ready, `"status":"degraded"`) == fails &&
				strings.Contains(ready, `"saving_fails":true`) == fails &&
				strings.Contains(metrics, fmt.Sprintf("\nheadgate_store_saving %d\n", saving))
		}
	}
	eventually(t, "the state is saved at the start", reports(false))
	limitFiles(1)
	eventually(t, "/readyz and the metrics report that saving fails", reports(true))
	eventually(t, "the log reports that saving fails", func() bool {
		return strings.Contains(p.text(), `level=ERROR msg="saving the state failed; decisions go on in memory"`)
	})
	limitFiles(1 << 40)
	eventually(t, "the state is saved again", reports(false))
	eventually(t, "the log reports that the state is saved again", func() bool {
		return strings.Contains(p.text(), `msg="state saved again"`)
	})
}
