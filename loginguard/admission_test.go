package loginguard_test

import (
	"net/netip"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission/admissiontest"
	"github.com/headgate/headgate/loginguard"
)

func TestRefundScenarios(t *testing.T) {
	none := []headgate.Limit{}
	admissiontest.RunSettle(t, admissiontest.Settler{
		New: func(t *testing.T, store headgate.Store, limit headgate.Limit, mode headgate.OnStoreError) admissiontest.Send {
			g := mustNew(t, store, &loginguard.Options{OnStoreError: mode, Limits: loginguard.Limits{
				Address: []headgate.Limit{limit}, Pair: none, Account: none, Subnet: none, Total: none,
			}})
			from := loginguard.Client{Addr: netip.MustParseAddr(admissiontest.Address)}
			return func(handler func(), refund bool) bool {
				a, err := g.Attempt(t.Context(), from)
				if err != nil {
					t.Fatal(err)
				}
				if !a.Allowed() {
					return false
				}
				if handler(); refund {
					if err := a.Succeeded(t.Context()); err != nil {
						t.Error(err)
					}
				}
				return true
			}
		},
	})
}
