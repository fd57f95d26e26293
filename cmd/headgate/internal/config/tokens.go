package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/cmd/headgate/internal/access"
	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
)

// Token is a bearer token with a name. The token itself is in exactly one of Token, File
// and Env, so that a configuration file needs no secret.
type Token struct {
	Name  string `yaml:"name" required:"yes"`
	Token Secret `yaml:"token"`
	File  Path   `yaml:"token_file"`
	Env   string `yaml:"token_env"`
}

// AdminToken is a token of the admin listener.
type AdminToken struct {
	Token  `yaml:",inline"`
	Scopes []AdminScope `yaml:"scopes" required:"yes" count:"1 2"`
}

// HTTPToken is a token of the HTTP API.
type HTTPToken struct {
	Token  `yaml:",inline"`
	Scopes []HTTPScope `yaml:"scopes" required:"yes" count:"1 4"`
}

// AdminScope is a scope of an [AdminToken], and HTTPScope one of an [HTTPToken].
type (
	AdminScope string
	HTTPScope  string
)

var (
	adminScopes = []string{string(access.Read), string(access.Write)}
	httpScopes  = []string{string(access.Check), string(access.Refund), string(access.Reset), string(access.Admin)}
)

func parseAdminScope(s string) (AdminScope, error) { return AdminScope(s), checkScope(s, adminScopes) }

func parseHTTPScope(s string) (HTTPScope, error) { return HTTPScope(s), checkScope(s, httpScopes) }

// checkScope returns an error if a text is not one of the scopes in known.
func checkScope(s string, known []string) error {
	if slices.Contains(known, s) {
		return nil
	}
	message := clip(s) + " is not a scope; must be one of " + strings.Join(known, ", ")
	if nearest := suggest.Nearest(s, known); nearest != "" {
		message += "; did you mean " + nearest + "?"
	}
	return errors.New(message)
}

// The names of the tokens in admin.token and http.token, and of clients without a token.
const (
	adminTokenName = "admin"
	httpTokenName  = "http"
	localName      = "local"
)

const (
	minTokenBytes = 16
	maxTokenBytes = 4096
)

var (
	tokenName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	tokenText = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)
)

// tokenError returns an error if a text cannot be a token. The error has no part of it.
func tokenError(text string) error {
	switch n := len(text); {
	case n < minTokenBytes || n > maxTokenBytes:
		return fmt.Errorf("has %d bytes; must be %d to %d, such as the output of: openssl rand -hex 32", n, minTokenBytes, maxTokenBytes)
	case !tokenText.MatchString(text):
		return errors.New("contains a character that is not allowed; must be letters, digits and -._~+/, with = at the end only")
	}
	return nil
}

// checkTokens records errors in the two lists of tokens.
func (d *decoder) checkTokens(f *File) {
	names := make(map[string]bool)
	for i := range f.Admin.Tokens {
		d.checkToken("admin.tokens["+strconv.Itoa(i)+"]", &f.Admin.Tokens[i].Token, names)
	}
	names = make(map[string]bool)
	for i := range f.HTTP.Tokens {
		d.checkToken("http.tokens["+strconv.Itoa(i)+"]", &f.HTTP.Tokens[i].Token, names)
	}
}

func (d *decoder) checkToken(path string, t *Token, names map[string]bool) {
	if d.hasErrorBelow(path) {
		return
	}
	name := join(path, "name")
	switch {
	case !tokenName.MatchString(t.Name):
		d.fail(d.at[name], name, false, "%s is not the name of a token; must be 1 to 64 letters, digits, dots, hyphens and underscores", clip(t.Name))
	case slices.Contains([]string{adminTokenName, httpTokenName, localName}, t.Name):
		d.fail(d.at[name], name, false, "%s is reserved; the audit uses it for other clients", clip(t.Name))
	case names[t.Name]:
		d.fail(d.at[name], name, false, "duplicate name %s; the audit would not show which of the tokens was used", clip(t.Name))
	}
	names[t.Name] = true
	sources := 0
	for _, text := range []string{string(t.Token), string(t.File), t.Env} {
		if text != "" {
			sources++
		}
	}
	if sources != 1 {
		d.fail(d.at[path], path, false, "has %d of token, token_file and token_env; must have exactly one", sources)
	} else if err := tokenError(string(t.Token)); t.Token != "" && err != nil {
		at := join(path, "token")
		d.fail(d.at[at], at, false, "%s", err)
	}
}

// resolveTokenFiles makes the paths of token files relative to the working directory.
func (f *File) resolveTokenFiles(source string) {
	for i := range f.Admin.Tokens {
		t := &f.Admin.Tokens[i].Token
		t.File = Path(resolvePath(source, string(t.File)))
	}
	for i := range f.HTTP.Tokens {
		t := &f.HTTP.Tokens[i].Token
		t.File = Path(resolvePath(source, string(t.File)))
	}
}

// tokenVariables returns the environment variables that contain tokens.
func (f *File) tokenVariables() (names []string) {
	for i := range f.Admin.Tokens {
		names = append(names, f.Admin.Tokens[i].Env)
	}
	for i := range f.HTTP.Tokens {
		names = append(names, f.HTTP.Tokens[i].Env)
	}
	return names
}

// AdminTokens returns the tokens of the admin listener. It reads the files of tokens, and
// variables with lookup, which is like os.LookupEnv. The error names the setting, and
// contains no part of a token.
func (c *Config) AdminTokens(lookup func(string) (string, bool)) ([]access.Token, error) {
	r := tokenReader{config: c, lookup: lookup}
	if c.Admin.Token != "" {
		r.all = append(r.all, access.Token{Name: adminTokenName, Secret: string(c.Admin.Token), Scopes: []access.Scope{access.Read, access.Write}})
	}
	for i := range c.Admin.Tokens {
		t := &c.Admin.Tokens[i]
		r.add("admin.tokens["+strconv.Itoa(i)+"]", &t.Token, scopesOf(t.Scopes))
	}
	return r.all, r.errs.orNil()
}

// HTTPTokens returns the tokens of the HTTP API; see [Config.AdminTokens].
func (c *Config) HTTPTokens(lookup func(string) (string, bool)) ([]access.Token, error) {
	r := tokenReader{config: c, lookup: lookup}
	if c.HTTP.Token != "" {
		if err := tokenError(string(c.HTTP.Token)); err != nil {
			return nil, Errors{c.wrong("http.token", err.Error())}
		}
		r.all = append(r.all, access.Token{Name: httpTokenName, Secret: string(c.HTTP.Token), Scopes: []access.Scope{access.Admin}})
	}
	for i := range c.HTTP.Tokens {
		t := &c.HTTP.Tokens[i]
		r.add("http.tokens["+strconv.Itoa(i)+"]", &t.Token, scopesOf(t.Scopes))
	}
	return r.all, r.errs.orNil()
}

func scopesOf[S ~string](names []S) []access.Scope {
	scopes := make([]access.Scope, len(names))
	for i, name := range names {
		scopes[i] = access.Scope(name)
	}
	return scopes
}

// tokenReader reads the tokens of one list.
type tokenReader struct {
	config *Config
	lookup func(string) (string, bool)
	all    []access.Token
	errs   Errors
}

func (r *tokenReader) add(path string, t *Token, scopes []access.Scope) {
	secret, field, err := t.read(r.lookup)
	if err == nil && slices.ContainsFunc(r.all, func(other access.Token) bool { return other.Secret == secret }) {
		err = errors.New("is the same token as that of another entry; each must be different")
	}
	if err != nil {
		at := r.config.parsed.at[join(path, field)]
		r.errs = append(r.errs, &Error{
			Source: r.config.parsed.Source, Line: at.line, Column: at.column, Path: join(path, field), Message: err.Error(),
		})
		return
	}
	r.all = append(r.all, access.Token{Name: t.Name, Secret: secret, Scopes: scopes})
}

// read returns the token itself, and the name of the field that has or names it.
func (t *Token) read(lookup func(string) (string, bool)) (secret, field string, err error) {
	switch {
	case t.Env != "":
		field = "token_env"
		if lookup != nil {
			secret, _ = lookup(t.Env)
		}
		if secret == "" {
			return "", field, fmt.Errorf("the environment variable %.100s is not set", t.Env)
		}
	case t.File != "":
		field = "token_file"
		if secret, err = readToken(string(t.File)); err != nil {
			return "", field, err
		}
	default:
		return string(t.Token), "token", nil
	}
	if err := tokenError(secret); err != nil {
		return "", field, fmt.Errorf("the token %w", err)
	}
	return secret, field, nil
}

// readToken reads a token from a file, without a line break at its end.
func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTokenBytes+3))
	return strings.TrimRight(string(text), "\r\n"), err
}
