package headgate_test

import (
	"context"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission/admissiontest"
)

// TestWaitAdmissionScenarios gives each request its own limiter, as if it ran in its
// own process. Waiters of one limiter form one queue, of which only the first has taken
// units.
func TestWaitAdmissionScenarios(t *testing.T) {
	admissiontest.Run(t, admissiontest.Caller{
		OnePolicy: true,
		New: func(t *testing.T, store headgate.Store, policies ...headgate.Policy) func(context.Context) error {
			return func(ctx context.Context) error {
				l, err := headgate.New(store, policies[0], nil)
				if err != nil {
					t.Fatal(err)
				}
				return l.Wait(ctx, admissiontest.Address)
			}
		},
	})
}
