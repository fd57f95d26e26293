package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// serveClients starts a service with a store in Redis, and returns the environment of a
// program that uses both.
func serveClients(t *testing.T, config, layout string) []string {
	t.Helper()
	redis := testserver.Redis(t)
	service := launch(t, 2, "--config", "../../examples/"+config, "--store", "redis://"+redis.Addr()+layout,
		"--http-addr", "127.0.0.1:0", "--resp-addr", "127.0.0.1:0", "--grpc-addr", "off", "--admin-addr", "off")
	return append(os.Environ(), "REDIS_ADDR="+redis.Addr(), "RATE_LIMIT_RESP="+service.addrs["resp"], "RATE_LIMIT_TIMEOUT_MS=60000")
}

func runPHP(t *testing.T, env []string, program string) string {
	t.Helper()
	cmd := exec.Command("/usr/bin/php", "../../examples/php/"+program)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
	return retryAfterSeconds.ReplaceAllString(string(out), "<=1200")
}

// A PHP program with the published Lua script finds what the service has spent, gets the
// replies of all test vectors, and computes the Redis keys of the Go store. The service
// does not cache denials, because the program resets the key.
func TestLuaContractFromPHP(t *testing.T) {
	t.Parallel()
	env := serveClients(t, "clients.yaml", "?denial_memory=-1s")
	if got := runPHP(t, env, "phpredis.php"); got != checksUp {
		t.Errorf("the service: got %s", got)
	}
	want := "denied, Retry-After: <=1200\n96 of 96 vectors equal\n6 of 6 keys equal\n"
	if got := runPHP(t, env, "lua.php"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := runPHP(t, env, "phpredis.php"); got != checksUp {
		t.Errorf("the service after the script reset the key: got %s", got)
	}
}

// The script of the Redis guides and the service spend from the same bucket.
func TestGuideScriptFromPHP(t *testing.T) {
	t.Parallel()
	want := "script: allowed 1, 9 left\nHeadgate: allowed 1, 8 left\nscript: allowed 1, 7 left\n"
	if got := runPHP(t, serveClients(t, "guide.yaml", "?layout=guide"), "guide.php"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLuaContractFromShell(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("examples/lua/check.sh")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "REDIS_PORT="+testserver.Redis(t).Port())
	out, err := cmd.CombinedOutput()
	if want := "1\n20\n19\n0\n100000\n0\n0\n"; err != nil || string(out) != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, out, want)
	}
}
