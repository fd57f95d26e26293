package headgate_test

import (
	"context"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission/admissiontest"
)

// Each request has a limiter of its own, as in a process of its own: those of one limiter stand in one line, and only the first of
// them has taken anything.
func TestAdmissionScenariosOfWait(t *testing.T) {
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
