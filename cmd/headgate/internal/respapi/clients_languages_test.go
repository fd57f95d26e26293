package respapi

import (
	"path/filepath"
	"testing"
)

// clientOutput is what the program of each client in testdata/clients prints.
const clientSteps = `ping true
throttle [0,16,15,-1,2]
denied [1,16,15,-1,2]
error "Cell error: Store error: Zero rates are not supported"
check ["allowed",1,"limit",200,"remaining",199,"retry_after_ms",0,"reset_after_ms",10,"delay_ms",0,"never",0,"policy","api","denied_by",[],"degraded",0]
pipeline [[0,16,14,-1,4],[1,10,9,1,0]]
transaction [[0,16,13,-1,6],[1,10,8,2,0]]
info "standalone"
name ["OK","test"]
again [0,16,12,-1,8]
`

// TestClientsOfOtherLanguages runs phpredis, Predis and redis-py of Debian: without a
// password, with a password, with a user, over TCP, over a networked store, and over a
// unix socket. They connect with their defaults, and reconnect after the server closed
// the connection.
func TestClientsOfOtherLanguages(t *testing.T) {
	t.Parallel()
	programs, err := filepath.Glob("testdata/clients/*.*")
	if err != nil || len(programs) != 3 {
		t.Fatalf("programs of clients: %q, %v; want three", programs, err)
	}
	interpreters := map[string]string{".php": "/usr/bin/php", ".py": "/usr/bin/python3"} // of Debian, with its packages
	for _, program := range programs {
		for i, opts := range []Options{{}, {Password: "secret"}, {User: "app", Password: "secret"}} {
			t.Run(filepath.Base(program)+" "+transports[i].name, func(t *testing.T) {
				t.Parallel()
				s := serve(t, transports[i], nil, opts, nil)
				got := mustRun(t, "", interpreters[filepath.Ext(program)], program, s.where(), opts.User, opts.Password)
				if got != clientSteps {
					t.Errorf("got\n%s\nwant\n%s", got, clientSteps)
				}
			})
		}
	}
}

// address is a TCP port or the path of a unix socket.
func (s *served) where() string {
	if s.ln.Addr().Network() == "unix" {
		return s.ln.Addr().String()
	}
	return s.port()
}
