package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/admission/admissiontest"
)

var errDenied = errors.New("the handler did not run")

func TestAdmissionScenarios(t *testing.T) {
	admissiontest.Run(t, admissiontest.Caller{
		New: func(t *testing.T, store headgate.Store, policies ...headgate.Policy) func(context.Context) error {
			var charges []httplimit.Charge
			for _, p := range policies {
				charges = append(charges, httplimit.Charge{Policy: p})
			}
			limit := newMiddlewareOn(t, store, nil, charges...)
			return func(ctx context.Context) error {
				err := errDenied
				h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { err = nil }))
				h.ServeHTTP(httptest.NewRecorder(), request(admissiontest.Address+":1").WithContext(ctx))
				return err
			}
		},
	})
}

func TestAdjustCostScenarios(t *testing.T) {
	admissiontest.RunSettle(t, admissiontest.Settler{
		New: func(t *testing.T, store headgate.Store, limit headgate.Limit, mode headgate.OnStoreError) admissiontest.Send {
			p := headgate.Policy{Name: "bucket", Limits: []headgate.Limit{limit}, OnStoreError: mode}
			middleware := newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: p, AdjustCost: httplimit.OnlyFailures})
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
