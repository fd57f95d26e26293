package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/access"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// loadTokens loads a file in a folder with the files of tokens in names.
func loadTokens(t *testing.T, text string, names map[string]string) (*config.Config, error) {
	t.Helper()
	folder := t.TempDir()
	for name, token := range names {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(folder, "headgate.yaml")
	replace(t, path, text)
	from := config.Sources{Path: path}
	return from.Load()
}

const threeTokens = `
http:
  token: token-of-the-setting-1
  tokens:
    - {name: inline, token: token-in-the-file-01, scopes: [check]}
    - {name: filed, token_file: a.token, scopes: [refund, reset]}
admin:
  token: short
  tokens:
    - {name: varied, token_env: SOME_TOKEN, scopes: [read, write]}
`

func TestTokensFromFileVariableAndSetting(t *testing.T) {
	t.Parallel()
	c, err := loadTokens(t, threeTokens, map[string]string{"a.token": "token-of-a-file-0001\n"})
	if err != nil {
		t.Fatal(err)
	}
	lookup := lookupOf(map[string]string{"SOME_TOKEN": "token-of-a-variable-1"})
	http, err := c.HTTPTokens(lookup)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := c.AdminTokens(lookup)
	if err != nil {
		t.Fatal(err)
	}
	want := []access.Token{
		{Name: "http", Secret: "token-of-the-setting-1", Scopes: []access.Scope{access.Admin}},
		{Name: "inline", Secret: "token-in-the-file-01", Scopes: []access.Scope{access.Check}},
		{Name: "filed", Secret: "token-of-a-file-0001", Scopes: []access.Scope{access.Refund, access.Reset}},
		{Name: "admin", Secret: "short", Scopes: []access.Scope{access.Read, access.Write}},
		{Name: "varied", Secret: "token-of-a-variable-1", Scopes: []access.Scope{access.Read, access.Write}},
	}
	got := append(http, admin...)
	if len(got) != len(want) {
		t.Fatalf("got %d tokens want %d", len(got), len(want))
	}
	for i, w := range want {
		if g := got[i]; g.Name != w.Name || g.Secret != w.Secret || len(g.Scopes) != len(w.Scopes) || g.Scopes[0] != w.Scopes[0] {
			t.Errorf("token %d: got %+v want %+v", i, g, w)
		}
	}
	var printed strings.Builder
	if err := c.Print(&printed); err != nil || strings.Contains(printed.String(), "token-of-") || strings.Contains(printed.String(), "token-in-") {
		t.Errorf("printed, error %v:\n%s", err, printed.String())
	}
}

// TestUnreadableTokens: an error names the entry and contains no part of a token.
func TestUnreadableTokens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ entry, file, variable, want string }{
		{"token_env: SOME_TOKEN", "", "", "http.tokens[0].token_env: the environment variable SOME_TOKEN is not set"},
		{"token_env: SOME_TOKEN", "", "shorty", "http.tokens[0].token_env: the token has 6 bytes; must be 16 to 4096, such as"},
		{"token_env: SOME_TOKEN", "", "shorty shorty shorty", "http.tokens[0].token_env: the token contains a character that is not allowed"},
		{"token_file: none", "", "", "http.tokens[0].token_file: open "},
		{"token_file: a.token", "shorty\n", "", "http.tokens[0].token_file: the token has 6 bytes"},
		{"token_file: a.token", "", "", "http.tokens[0].token_file: the token has 0 bytes"},
		{"token_file: a.token", strings.Repeat("shorty", 1000), "", "http.tokens[0].token_file: the token has 4099 bytes"},
		{"token_file: a.token", "token-in-the-file-01", "", "http.tokens[1].token: is the same token as that of another entry"},
	} {
		text := "http:\n  tokens:\n    - {name: a, scopes: [check], " + c.entry + "}\n    - {name: b, scopes: [check], token: token-in-the-file-01}\n"
		loaded, err := loadTokens(t, text, map[string]string{"a.token": c.file})
		if err != nil {
			t.Fatal(err)
		}
		_, err = loaded.HTTPTokens(lookupOf(map[string]string{"SOME_TOKEN": c.variable}))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "shorty") {
			t.Errorf("%s: got %v want %s", c.entry, err, c.want)
		}
	}
	short := config.Sources{Flags: map[string]string{"http.token": "shorty"}}
	c, err := short.Load()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.HTTPTokens(nil); err == nil || !strings.Contains(err.Error(), "--http.token") && !strings.Contains(err.Error(), "--http-token: has 6 bytes") {
		t.Errorf("a short http.token: got %v", err)
	}
}

func TestInvalidTokens(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		`{token: token-in-the-file-01, scopes: [check]}`:                        "http.tokens[0]: name is required",
		`{name: a, token: token-in-the-file-01}`:                                "http.tokens[0]: scopes is required",
		`{name: a, scopes: [check]}`:                                            "http.tokens[0]: has 0 of token, token_file and token_env; must have exactly one",
		`{name: a, token: token-in-the-file-01, token_env: A, scopes: [check]}`: "http.tokens[0]: has 2 of token, token_file and token_env",
		`{name: a, token: token-in-the-file-01, scopes: []}`:                    "http.tokens[0].scopes: list has 0 entries; must be 1 to 4",
		`{name: a, token: token-in-the-file-01, scopes: [chek]}`:                `"chek" is not a scope; must be one of check, refund, reset, admin; did you mean check?`,
		`{name: a, token: token-in-the-file-01, scopes: [write]}`:               `"write" is not a scope; must be one of check, refund, reset, admin`,
		`{name: a b, token: token-in-the-file-01, scopes: [check]}`:             `http.tokens[0].name: "a b" is not the name of a token`,
		`{name: local, token: token-in-the-file-01, scopes: [check]}`:           `http.tokens[0].name: "local" is reserved`,
		`{name: a, token: shorty, scopes: [check]}`:                             "http.tokens[0].token: has 6 bytes; must be 16 to 4096",
		`{name: a, token: "token in the file 01", scopes: [check]}`:             "http.tokens[0].token: contains a character that is not allowed",
		`{name: b, token: token-in-the-file-01, scopes: [check]}`:               `http.tokens[1].name: duplicate name "b"`,
		`{name: a, token: token-in-the-file-01, scopes: [check], tokenfile: x}`: "unknown key; did you mean token_file?",
	} {
		_, err := loadTokens(t, "http:\n  tokens:\n    - "+entry+"\n    - {name: b, scopes: [check], token: token-in-the-file-02}\n", nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "token-in-the") || strings.Contains(err.Error(), "shorty") {
			t.Errorf("%s: got %v want %s", entry, err, want)
		}
	}
	_, err := loadTokens(t, "admin:\n  tokens: [{name: a, token: token-in-the-file-01, scopes: [check]}]\n", nil)
	if err == nil || !strings.Contains(err.Error(), `"check" is not a scope; must be one of read, write`) {
		t.Errorf("a scope of the HTTP API for the admin listener: got %v", err)
	}
}

// A variable of a token may begin with HEADGATE_, although it is not a setting.
func TestVariablesOfTokensAreKnown(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.yaml")
	replace(t, path, "admin: {addr: 0.0.0.0:6070, tokens: [{name: a, token_env: HEADGATE_TOKEN_A, scopes: [read]}]}\n")
	from := config.Sources{Path: path, Environ: []string{"HEADGATE_TOKEN_A=x"}}
	if _, err := from.Load(); err != nil {
		t.Error(err)
	}
	from.Environ = []string{"HEADGATE_TOKEN_B=x"}
	if _, err := from.Load(); err == nil {
		t.Error("a variable that no token uses: got no error")
	}
}

func TestHistoryHasDifferencesWithoutSecrets(t *testing.T) {
	t.Parallel()
	var h config.History
	first, err := loadTokens(t, threeTokens+"policies:\n  a: {limits: 5/s}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := loadTokens(t, "# a comment moves all lines\n"+threeTokens+"log: {level: debug}\npolicies:\n  a: {limits: 6/s}\n  b: {limits: 7/s}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	h.Add(first, config.Status{Generation: 1})
	h.Add(second, config.Status{Generation: 2})
	all := h.All()
	if len(all) != 2 || all[0].Generation != 2 || len(all[1].Diff) != 0 {
		t.Fatalf("got %+v want two configurations, the latest first", all)
	}
	var changed []string
	for _, line := range all[0].Diff {
		if text := string(line.Op) + line.Line; line.Op != ' ' {
			changed = append(changed, text)
		} else if strings.Contains(text, "token-") {
			t.Errorf("the difference contains a token: %s", text)
		}
	}
	for _, want := range []string{"-    limits: [5/s]", "+    limits: [6/s]", "-  level: info", "+  level: debug", "+  b:"} {
		if !strings.Contains(strings.Join(changed, "\n")+"\n", want+"\n") {
			t.Errorf("the difference does not have %q:\n%s", want, strings.Join(changed, "\n"))
		}
	}
	for i := range 30 {
		h.Add(first, config.Status{Generation: uint64(i)})
	}
	if n := len(h.All()); n != config.MaxHistory {
		t.Errorf("got %d configurations want %d", n, config.MaxHistory)
	}
}
