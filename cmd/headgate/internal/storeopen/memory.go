package storeopen

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

const memory = "memory"

// FolderObserver receives events of the folder in which a memory store saves its state.
type FolderObserver interface {
	// ObserveFolder is called when saving fails and when it works again; see
	// [memstore.FolderOptions].
	ObserveFolder(e memstore.FolderEvent)
}

// openMemory opens a memory store. If volatile is true, its folder is not used.
func openMemory(rawURL string, volatile bool, observer headgate.StoreObserver) (headgate.Store, error) {
	folder, opts, err := memoryOptions(rawURL)
	if err != nil {
		return nil, err
	}
	if folder == "" || volatile {
		return memstore.New(&opts.Options), nil
	}
	if o, ok := observer.(FolderObserver); ok {
		opts.OnEvent = o.ObserveFolder
	}
	store, err := memstore.Open(folder, opts)
	if err != nil {
		return nil, &Error{memory, reason(err, "memstore: "), err}
	}
	return store, nil
}

// FolderOf returns the folder in which the store of rawURL saves its state, or "".
func FolderOf(rawURL string) string {
	if Name(rawURL) != memory {
		return ""
	}
	folder, _, _ := memoryOptions(rawURL)
	return folder
}

// memoryOptions parses a store URL of the form memory://?name=value or
// memory:///folder?name=value.
func memoryOptions(rawURL string) (folder string, opts *memstore.FolderOptions, err error) {
	rest, query, _ := strings.Cut(rawURL[len(memory):], "?")
	rest = strings.TrimPrefix(rest, "://")
	if rest != "" {
		folder, err = url.PathUnescape(rest)
		if len(folder) < 2 || folder[0] != '/' || err != nil || strings.ContainsAny(folder, "\x00") {
			return "", nil, &Error{memory, "address is not supported; must be memory://, or memory:///folder with the absolute path of a folder for the state", nil}
		}
	}
	params, err := url.ParseQuery(query)
	if err != nil {
		return "", nil, &Error{memory, "invalid parameters; must be ?name=value&name=value", nil}
	}
	opts = &memstore.FolderOptions{}
	if err := setMemoryParams(opts, params, folder != ""); err != nil {
		return "", nil, err
	}
	if err := opts.Validate(); err != nil {
		return "", nil, &Error{memory, reason(err, "memstore: "), err}
	}
	return folder, opts, nil
}

func setMemoryParams(opts *memstore.FolderOptions, params url.Values, hasFolder bool) error {
	for name, values := range params {
		accepted := "a whole number of at least 1"
		var err error
		switch name {
		case "max_entries":
			accepted, err = setWhole(&opts.MaxEntries, values[0])
		case "max_bytes":
			if opts.MaxBytes, err = strconv.ParseInt(values[0], 10, 64); opts.MaxBytes < 1 {
				err = strconv.ErrRange
			}
		case "sync":
			if !hasFolder {
				return &Error{memory, "parameter sync requires a folder for the state: memory:///folder?sync=100ms", nil}
			}
			accepted = "a duration such as 100ms, from 10ms to 1m"
			if opts.Sync, err = time.ParseDuration(values[0]); opts.Sync <= 0 {
				err = strconv.ErrRange
			}
		default:
			return &Error{memory, fmt.Sprintf("unknown parameter %q; must be max_entries, max_bytes or sync", name), nil}
		}
		if err != nil || len(values) > 1 {
			return &Error{memory, fmt.Sprintf("parameter %q must be set once, to %s", name, accepted), err}
		}
	}
	return nil
}
