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

// HTTPToken is a token of the HTTP API, or a user of the Redis-compatible endpoint, whose
// password is the token.
type HTTPToken struct {
	Token  `yaml:",inline"`
	Scopes []HTTPScope `yaml:"scopes" required:"yes" count:"1 4"`
}

// AdminScope is a scope of an [AdminToken].
type AdminScope string

// HTTPScope is a scope of an [HTTPToken].
type HTTPScope string

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

// namedToken is an entry of a list of tokens.
type namedToken struct {
	path string // such as http.tokens[0]
	*Token
	scopes []access.Scope
}

// adminTokens returns the entries of admin.tokens.
func (f *File) adminTokens() (all []namedToken) {
	for i := range f.Admin.Tokens {
		t := &f.Admin.Tokens[i]
		all = append(all, namedToken{"admin.tokens[" + strconv.Itoa(i) + "]", &t.Token, scopesOf(t.Scopes)})
	}
	return all
}

// httpTokens returns the entries of http.tokens or resp.users, which is the parameter
// list. The parameter path is its path.
func httpTokens(path string, list []HTTPToken) (all []namedToken) {
	for i := range list {
		all = append(all, namedToken{path + "[" + strconv.Itoa(i) + "]", &list[i].Token, scopesOf(list[i].Scopes)})
	}
	return all
}

// tokenLists returns the lists of tokens.
func (f *File) tokenLists() [][]namedToken {
	return [][]namedToken{f.adminTokens(), httpTokens("http.tokens", f.HTTP.Tokens), httpTokens("resp.users", f.RESP.Users)}
}

// checkTokens records errors in the lists of tokens.
func (d *decoder) checkTokens(f *File) {
	for _, list := range f.tokenLists() {
		names := make(map[string]bool)
		for _, t := range list {
			d.checkToken(t.path, t.Token, names)
		}
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
	} else if err := tokenError(string(t.Token)); t.Token != "" && t.Token != masked && err != nil {
		at := join(path, "token")
		d.fail(d.at[at], at, false, "%s", err)
	}
}

// resolveTokenFiles makes the paths of token files relative to the working directory.
func (f *File) resolveTokenFiles(source string) {
	for _, list := range f.tokenLists() {
		for _, t := range list {
			t.File = Path(resolvePath(source, string(t.File)))
		}
	}
}

// tokenVariables returns the environment variables that contain tokens.
func (f *File) tokenVariables() (names []string) {
	for _, list := range f.tokenLists() {
		for _, t := range list {
			names = append(names, t.Env)
		}
	}
	return names
}

// warnOfTokens adds a warning for each token that is the placeholder for a secret.
func (c *Config) warnOfTokens() {
	for _, list := range c.tokenLists() {
		for _, t := range list {
			if t.Token.Token == masked {
				c.Warnings = append(c.Warnings, maskedWarning(join(t.path, "token")))
			}
		}
	}
}

// AdminTokens returns the tokens of the admin listener. It reads the files of tokens, and
// variables with lookup, which is like os.LookupEnv. The error names the setting, and
// contains no part of a token.
func (c *Config) AdminTokens(lookup func(string) (string, bool)) ([]access.Token, error) {
	r := tokenReader{config: c, lookup: lookup}
	if c.Admin.Token != "" {
		r.all = append(r.all, access.Token{Name: adminTokenName, Secret: string(c.Admin.Token), Scopes: []access.Scope{access.Read, access.Write}})
	}
	return r.read(c.adminTokens())
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
	return r.read(httpTokens("http.tokens", c.HTTP.Tokens))
}

// RESPUsers returns the users of the Redis-compatible endpoint that have scopes, with
// their passwords; see [Config.AdminTokens].
func (c *Config) RESPUsers(lookup func(string) (string, bool)) ([]access.Token, error) {
	r := tokenReader{config: c, lookup: lookup}
	return r.read(httpTokens("resp.users", c.RESP.Users))
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

// read reads the tokens of a list, and returns all tokens that were read.
func (r *tokenReader) read(list []namedToken) ([]access.Token, error) {
	for _, t := range list {
		r.add(t.path, t.Token, t.scopes)
	}
	return r.all, r.errs.orNil()
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
		field, secret = "token", string(t.Token)
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
