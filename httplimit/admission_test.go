package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/admission/admissiontest"
)

var errNotAhead = errors.New("the handler did not run")

func TestAdmissionScenarios(t *testing.T) {
	admissiontest.Run(t, admissiontest.Caller{
		New: func(t *testing.T, store headgate.Store, policies ...headgate.Policy) func(context.Context) error {
			var charges []httplimit.Charge
			for _, p := range policies {
				charges = append(charges, httplimit.Charge{Policy: p})
			}
			limit := over(t, store, nil, charges...)
			return func(ctx context.Context) error {
				err := errNotAhead
				h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { err = nil }))
				h.ServeHTTP(httptest.NewRecorder(), request(admissiontest.Address+":1").WithContext(ctx))
				return err
			}
		},
	})
}

func TestSettleScenarios(t *testing.T) {
	admissiontest.RunSettle(t, admissiontest.Settler{
		New: func(t *testing.T, store headgate.Store, limit headgate.Limit, mode headgate.OnStoreError) admissiontest.Send {
			p := headgate.Policy{Name: "bucket", Limits: []headgate.Limit{limit}, OnStoreError: mode}
			middleware := over(t, store, nil, httplimit.Charge{Policy: p, AdjustCost: httplimit.OnlyFailures})
			return func(handler func(), refund bool) (admitted bool) {
				h := middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					handler()
					if admitted = true; !refund {
						w.WriteHeader(http.StatusUnauthorized)
					}
				}))
				h.ServeHTTP(httptest.NewRecorder(), request(admissiontest.Address+":1"))
				return admitted
			}
		},
	})
}

// A place in a queue stays taken when its request settles, as later ones were promised their instants.
func TestSettleKeepsPlacesInQueues(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		l := newLine(t, nil, httplimit.Charge{Policy: queue("q", "1/s queue 9"), AdjustCost: httplimit.OnlyFailures})
		first, second := l.join(t.Context()), l.join(t.Context())
		<-first
		third := l.join(t.Context())
		<-second
		<-third
		if want := []int64{0, 1000, 2000}; !slices.Equal(l.handled, want) {
			t.Errorf("handled after %v ms want %v", l.handled, want)
		}
	})
}
