package storeopen

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

const memory = "memory"

func openMemory(rawURL string) (headgate.Store, error) {
	opts, err := memoryOptions(rawURL)
	if err != nil {
		return nil, err
	}
	if err := opts.Validate(); err != nil {
		return nil, &Error{memory, reason(err, "memstore: "), err}
	}
	return memstore.New(opts), nil
}

func memoryOptions(rawURL string) (*memstore.Options, error) {
	opts := &memstore.Options{}
	rest := strings.TrimPrefix(rawURL[len(memory):], "://")
	if rest == "" {
		return opts, nil
	}
	if rest[0] != '?' {
		return nil, &Error{memory, "address is not supported; must be memory:// or memory://?max_entries=N", nil}
	}
	params, err := url.ParseQuery(rest[1:])
	if err != nil {
		return nil, &Error{memory, "invalid parameters; must be ?name=value&name=value", nil}
	}
	for name, values := range params {
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil || n < 1 || len(values) > 1 {
			return nil, &Error{memory, fmt.Sprintf("parameter %q must be set once, to a whole number of at least 1", name), nil}
		}
		switch name {
		case "max_entries":
			opts.MaxEntries = int(n)
		case "max_bytes":
			opts.MaxBytes = n
		default:
			return nil, &Error{memory, fmt.Sprintf("unknown parameter %q; must be max_entries or max_bytes", name), nil}
		}
	}
	return opts, nil
}
