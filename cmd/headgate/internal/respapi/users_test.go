package respapi

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/cmd/headgate/internal/access"
)

// scopeCommands has the scope that each command requires. Commands that are not listed
// require none.
var scopeCommands = map[access.Scope][][]any{
	access.None: {{"PING"}, {"ECHO", "x"}, {"INFO"}, {"COMMAND", "COUNT"}},
	access.Check: {
		{"CL.THROTTLE", "k", 4, 5, 60},
		{"THROTTLE", "k", 4, 5, 60},
		{"HG.CHECK", "api", "k"},
		{"HG.PEEK", "api", "k"},
		{"HG.DEBIT", "api", "k"},
		{"HG.UPTO", "api", "k"},
		{"HG.HOLD", "*", "1m", "api", "k"},
		{"HG.COMMIT", "x", 1},
		{"HG.CANCEL", "x"},
		{"HG.EXTEND", "1m", "x"},
	},
	access.Refund: {{"HG.REFUND", "api", "k"}},
	access.Reset:  {{"HG.RESET", "api", "k"}},
}

// TestScopesOfEveryCommand tests every cell of the table of scopes: each command with
// each user.
func TestScopesOfEveryCommand(t *testing.T) {
	t.Parallel()
	users := []access.Token{
		{Name: "checker", Secret: "password-of-check", Scopes: []access.Scope{access.Check}},
		{Name: "refunder", Secret: "password-of-refund", Scopes: []access.Scope{access.Refund}},
		{Name: "resetter", Secret: "password-of-reset", Scopes: []access.Scope{access.Reset}},
		{Name: "all", Secret: "password-of-all", Scopes: []access.Scope{access.Admin}},
	}
	s := serve(t, transports[0], nil, Options{}, nil)
	s.handler.SetUsers(users)
	addr := s.ln.Addr().String()
	cells := 0
	for _, user := range append(users, access.Token{Name: "default"}) {
		client := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, Username: user.Name, Password: user.Secret, DisableIdentity: true})
		defer client.Close()
		if user.Secret == "" {
			client = redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
			defer client.Close()
		}
		for scope, commands := range scopeCommands {
			for _, command := range commands {
				cells++
				want := ""
				switch {
				case user.Secret == "":
					want = "NOAUTH"
				case !access.Has(user.Scopes, scope):
					want = "NOPERM User " + user.Name + " has no permissions to run the '" + strings.ToLower(command[0].(string)) + "' command"
				}
				err := client.Do(t.Context(), command...).Err()
				got := ""
				if err != nil {
					got = err.Error()
				}
				denied := strings.HasPrefix(got, "NOAUTH") || strings.HasPrefix(got, "NOPERM")
				if want == "" && denied || want != "" && !strings.HasPrefix(got, want) {
					t.Errorf("%v as %s: got %q want %q", command, user.Name, got, want)
				}
			}
		}
	}
	t.Logf("%d cells", cells)
}

func TestUsersOfTransactionsAndRefunds(t *testing.T) {
	t.Parallel()
	s := serve(t, transports[0], nil, Options{Password: "password-of-default"}, nil)
	s.handler.SetUsers([]access.Token{{Name: "checker", Secret: "password-of-check", Scopes: []access.Scope{access.Check}}})
	addr := s.ln.Addr().String()
	client := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, Username: "checker", Password: "password-of-check", DisableIdentity: true})
	defer client.Close()
	if err := client.Do(t.Context(), "CL.THROTTLE", "k", 4, 5, 60, -1).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
		t.Errorf("a refund with a negative quantity: got %v want NOPERM", err)
	}
	_, err := client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Do(t.Context(), "HG.CHECK", "api", "k")
		p.Do(t.Context(), "HG.RESET", "api", "k")
		return nil
	})
	if err == nil || !strings.HasPrefix(err.Error(), "NOPERM") && !strings.HasPrefix(err.Error(), "EXECABORT") {
		t.Errorf("a reset in a transaction: got %v want NOPERM", err)
	}
	whole := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, Password: "password-of-default", DisableIdentity: true})
	defer whole.Close()
	if err := whole.Do(t.Context(), "HG.RESET", "api", "k").Err(); err != nil {
		t.Errorf("the user of resp.password: got %v", err)
	}
	wrong := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, Username: "checker", Password: "password-of-default", DisableIdentity: true})
	defer wrong.Close()
	if err := wrong.Ping(t.Context()).Err(); err == nil || !strings.HasPrefix(err.Error(), "WRONGPASS") {
		t.Errorf("the password of another user: got %v want WRONGPASS", err)
	}
}
