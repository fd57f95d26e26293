package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/loginguard"
)

// loginPrograms are the same login form in three languages. login_form.js uses no
// packages.
var loginPrograms = map[string][]string{
	"php":    {"/usr/bin/php", "php/login.php"},
	"python": {"/usr/bin/python3", "python/login.py"},
	"node":   {"node", "node/login_form.js"},
}

// loggedDenial matches what a program logs if an attempt is denied.
var loggedDenial = regexp.MustCompile(`login denied by \w+`)

// loginAttempts runs a program with passwords. It returns its output, and a line for each
// denial that it logged.
func loginAttempts(t *testing.T, language string, service *launched, env []string, passwords ...string) string {
	t.Helper()
	command := loginPrograms[language]
	cmd := exec.Command(command[0], append(command[1:len(command):len(command)], passwords...)...)
	cmd.Dir, cmd.Env = "../../examples", env
	output, log := outputAndLogOfClient(t, cmd, service.addrs, 60_000)
	for _, denial := range loggedDenial.FindAllString(log, -1) {
		output += denial + "\n"
	}
	return output
}

func launchLogins(t *testing.T) *launched {
	t.Helper()
	return launch(t, 2, "--config", "../../examples/login.yaml",
		"--http-addr", "127.0.0.1:0", "--resp-addr", "off", "--grpc-addr", "off", "--admin-addr", "127.0.0.1:0")
}

// The right password costs nothing. The sixth wrong one is denied, and so is the right
// one after it. Without the service, every attempt is denied.
func TestLoginForms(t *testing.T) {
	t.Parallel()
	want := "logged in\n" + strings.Repeat("wrong password\n", 5) + strings.Repeat("too many attempts, Retry-After: <=1200\n", 2) + strings.Repeat("login denied by login_pair\n", 2)
	for language := range loginPrograms {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			service := launchLogins(t)
			if got := loginAttempts(t, language, service, nil, "right", "a", "b", "c", "d", "e", "f", "right"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			kill(t, service, "KILL")
			_ = service.cmd.Wait()
			if got := loginAttempts(t, language, service, nil, "right"); got != "not decided: denied\n" {
				t.Errorf("without the service: got %s", got)
			}
		})
	}
}

// A success cancels the hold of its attempt. No program refunds, which is not exact.
func TestLoginFormsCancelHolds(t *testing.T) {
	t.Parallel()
	for language := range loginPrograms {
		service := launchLogins(t)
		loginAttempts(t, language, service, nil, "right", "a", "right")
		_, metrics := service.operator(t, "/metrics")
		for _, want := range []string{
			`headgate_operations_total{api="http",verb="commit"} 2`, `headgate_operations_total{api="http",verb="refund"} 0`,
			`headgate_decisions_total{api="http",outcome="allowed",policy="login_pair"} 3`,
		} {
			if !strings.Contains(metrics, want+"\n") {
				t.Errorf("%s: the metrics do not contain %s", language, want)
			}
		}
	}
}

// Programs in all languages compute the same keys, for addresses in all forms. Two of
// them together exhaust the limit of the pair for the third.
func TestLoginFormsShareLimits(t *testing.T) {
	t.Parallel()
	service := launchLogins(t)
	for i, addresses := range [][3]string{
		{"203.0.113.9", "::ffff:203.0.113.9", "203.0.113.9"},
		{"2001:db8::1", "2001:DB8:0:0:ffff::2", "2001:0db8:0000:0000:1:2:3:4"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::", "2001:db8:1:2::9"},
		{"::1", "0:0:0:0:0:0:0:2", "::3"},
	} {
		for j, language := range []string{"php", "python", "node"} {
			want := []string{strings.Repeat("wrong password\n", 2), strings.Repeat("wrong password\n", 3), "too many attempts, Retry-After: <=1200\nlogin denied by login_pair\n"}[j]
			guesses := [][]string{{"a", "b"}, {"c", "d", "e"}, {"f"}}[j]
			env := []string{"LOGIN_ADDRESS=" + addresses[j], "LOGIN_SECRET=secret of case " + strconv.Itoa(i)}
			if got := loginAttempts(t, language, service, env, guesses...); got != want {
				t.Errorf("%s at %s: got %s want %s", language, addresses[j], got, want)
			}
		}
	}
}

// After 20 guesses from several addresses an account is locked, except for a browser with
// the cookie of an earlier login.
func TestLoginFormsKnownBrowser(t *testing.T) {
	t.Parallel()
	service := launchLogins(t)
	for i := range 4 {
		env := []string{"LOGIN_ADDRESS=198.51.100." + strconv.Itoa(i)}
		loginAttempts(t, "python", service, env, "a", "b", "c", "d", "e")
	}
	for language := range loginPrograms {
		if got := loginAttempts(t, language, service, nil, "right"); got != "too many attempts, Retry-After: <=1200\nlogin denied by login_account\n" {
			t.Errorf("%s, a new browser: got %s", language, got)
		}
		if got := loginAttempts(t, language, service, []string{"LOGIN_KNOWN=1"}, "right"); got != "logged in\n" {
			t.Errorf("%s, a known browser: got %s", language, got)
		}
	}
}

// loginRow is a row of the table of attacks: the policy, and the guesses in an hour and
// in a day.
var loginRow = regexp.MustCompile("(?m)^\\| [^|]+ \\| `(login_\\w+)` \\| (\\d+) \\| (\\d+) \\|$")

// The figures of the guide follow from the limits.
func TestLoginFigures(t *testing.T) {
	t.Parallel()
	from := config.Sources{Path: "../../examples/login.yaml"}
	loaded, err := from.Load()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/guides/login-any-language.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := loginRow.FindAllSubmatch(page, -1)
	if len(rows) != 3 {
		t.Fatalf("got %d rows, want 3", len(rows))
	}
	for _, row := range rows {
		limits := loaded.Policies[string(row[1])].Limits
		hour, day := loginguard.MaxAttempts(limits, time.Hour), loginguard.MaxAttempts(limits, 24*time.Hour)
		if strconv.FormatInt(hour, 10) != string(row[2]) || strconv.FormatInt(day, 10) != string(row[3]) {
			t.Errorf("%s: the page has %s and %s, want %d and %d", row[1], row[2], row[3], hour, day)
		}
	}
}
