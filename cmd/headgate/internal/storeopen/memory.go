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
		return nil, &Error{memory, "it has no address; write memory:// or memory://?max_entries=N", nil}
	}
	params, err := url.ParseQuery(rest[1:])
	if err != nil {
		return nil, &Error{memory, "its parameters cannot be read", nil}
	}
	for name, values := range params {
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil || n < 1 || len(values) > 1 {
			return nil, &Error{memory, fmt.Sprintf("parameter %q takes one whole number from 1", name), nil}
		}
		switch name {
		case "max_entries":
			opts.MaxEntries = int(n)
		case "max_bytes":
			opts.MaxBytes = n
		default:
			return nil, &Error{memory, fmt.Sprintf("unknown parameter %q; there are max_entries and max_bytes", name), nil}
		}
	}
	return opts, nil
}
