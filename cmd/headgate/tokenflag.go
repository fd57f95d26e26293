package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headgate/headgate/cmd/headgate/internal/service"
)

// maxTokenFile is the maximum size of a file with a token, in bytes.
const maxTokenFile = 4 << 10

// tokenFlag is the token that a client sends to a running service. It is in a file or in
// an environment variable. A flag with the token itself is refused.
type tokenFlag struct {
	name string // the setting of the service: admin-token or http-token
	file string
}

// add defines the flag --NAME-file and the refused flag --NAME.
func (t *tokenFlag) add(f *pflag.FlagSet, name, usage string) {
	t.name = name
	f.Var((*fileFlag)(&t.file), name+"-file", usage)
	f.Var(refusedToken{name}, name, "")
	_ = f.MarkHidden(name) // fails only for a flag that does not exist
}

// value returns the token, or "" if none is set.
func (t *tokenFlag) value() (string, error) {
	if t.file == "" {
		return os.Getenv(service.Variable(t.name)), nil
	}
	f, err := os.Open(t.file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" || len(text) > maxTokenFile || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("%s is not a token; the file must have one line of at most %d bytes", t.file, maxTokenFile)
	}
	return token, nil
}

// refusedToken is a flag that is refused: other users of the machine can read it.
type refusedToken struct{ name string }

// String returns an empty text.
func (refusedToken) String() string { return "" }

// Set returns an error.
func (r refusedToken) Set(string) error {
	return fmt.Errorf("other users of this machine can read the arguments of a command; set %s, or use --%s-file", service.Variable(r.name), r.name)
}

// Type returns the placeholder of the flag's value.
func (refusedToken) Type() string { return "secret" }
