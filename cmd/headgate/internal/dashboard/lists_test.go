package dashboard_test

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
)

// TestLongLists: the page shows a part of the policies and of the audit at first, and all
// of them on request.
func TestLongLists(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the long tests use all controls")
	}
	yaml := "\npolicies:\n"
	for i := range 40 {
		yaml += fmt.Sprintf("  policy-%02d: {limits: [\"5/1h\"]}\n", i)
	}
	s := start(t, yaml)
	v := open(t, s, desktop)
	rows := func(table string) int {
		return chromium.Eval[int](t, v.Browser, fmt.Sprintf("document.querySelectorAll('#%s tbody tr').length", table))
	}
	v.shows("#policy-all", "Show all 40 policies")
	if got := rows("policy-table"); got != 25 {
		t.Errorf("at first: got %d policies want 25", got)
	}
	v.click("#policy-all")
	v.fragment("all=1", true)
	v.eventually("all policies", func() bool { return rows("policy-table") == 40 })
	v.shows("#policy-all", "Show fewer")
	v.click("#policy-all")
	v.eventually("fewer policies", func() bool { return rows("policy-table") == 25 })

	for i := range 70 {
		body := map[string]any{"policy": "policy-00", "key": fmt.Sprintf("key-%02d", i), "reason": "test"}
		if status := s.post(s.admin+"/admin/v1/keys/reset", body, nil); status != 200 {
			t.Fatalf("reset: got status %d", status)
		}
	}
	v.eventually("the latest entries of the audit", func() bool { return rows("audit-table") == 30 })
	for _, want := range []int{60, 70} {
		v.click("#audit-older")
		v.eventually(fmt.Sprint(want, " entries of the audit"), func() bool { return rows("audit-table") == want })
	}
	v.until("document.getElementById('audit-older').hidden")
	v.mustBeQuiet()
}
