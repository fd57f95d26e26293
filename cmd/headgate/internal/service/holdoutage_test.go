package service_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

// While the store is unavailable, operations on holds follow the failure mode. A hold
// that was allowed without a charge can be committed.
func TestHoldFailureModes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[headgate.OnStoreError]int{headgate.FailOpen: 200, headgate.FailClosed: 503} {
		store, err := storeopen.Open("redis://127.0.0.1:1", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		e, err := engine.New(store, &engine.Options{OnStoreError: mode})
		if err != nil {
			t.Fatal(err)
		}
		h := httpapi.New(e, nil)
		post := func(path, body string) (int, string) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
			return w.Code, w.Body.String()
		}
		status, body := post("/v1/hold", `{"ttl":"1m","limit":"5/1m","key":"k"}`)
		var opened struct{ Hold string }
		if err := json.Unmarshal([]byte(body), &opened); err != nil || status != want || (opened.Hold != "") != (want == 200) {
			t.Fatalf("%s: got %d %s want %d", mode, status, body, want)
		}
		if opened.Hold == "" {
			h := engine.ClientHold{Expires: headgate.MaxInstant, Checks: []engine.Check{{Limit: "5/1m", Key: "k"}}}
			opened.Hold = h.Token()
		}
		for path, body := range map[string]string{
			"/v1/commit": `{"actual":[1],"hold":"` + opened.Hold + `"}`, "/v1/extend": `{"ttl":"1m","holds":["` + opened.Hold + `"]}`,
			"/v1/debit": `{"limit":"5/1m","key":"k"}`, "/v1/take-up-to": `{"limit":"5/1m","key":"k"}`,
		} {
			if status, body := post(path, body); status != want || want == 200 && !strings.Contains(body, `"degraded":true`) {
				t.Errorf("%s, %s: got %d %s want %d", mode, path, status, body, want)
			}
		}
	}
}
