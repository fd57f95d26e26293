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
