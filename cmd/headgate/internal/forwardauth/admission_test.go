package forwardauth_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/forwardauth"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/internal/admission/admissiontest"
)

func TestAdmissionScenarios(t *testing.T) {
	admissiontest.Run(t, admissiontest.Caller{
		New: func(t *testing.T, store headgate.Store, policies ...headgate.Policy) func(context.Context) error {
			opts := &engine.Options{Policies: map[string]headgate.Policy{}}
			route := routing.Route{Path: must(routing.ParsePath("/"))}
			for _, p := range policies {
				opts.Policies[p.Name] = p
				route.Policies = append(route.Policies, p.Name)
			}
			opts.Routes = routing.NewTable([]routing.Route{route}, nil)
			h := must(forwardauth.New(must(engine.New(store, opts)), &forwardauth.Options{Local: true}))
			return func(ctx context.Context) error {
				r := request("127.0.0.1:1", forwardauth.Path,
					"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/", "X-Forwarded-For", admissiontest.Address)
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r.WithContext(ctx)); w.Code != 200 {
					return errors.New(w.Body.String())
				}
				return nil
			}
		},
	})
}
