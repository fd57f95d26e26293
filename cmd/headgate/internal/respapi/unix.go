package respapi

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// ListenUnix listens on a unix socket that whoever mode says may reach; 0 means 0600, the owner alone. The socket is never there with
// another mode. One that nobody listens on any more is replaced; anything else at path is left alone, and is an error.
func ListenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	if mode == 0 {
		mode = 0o600
	}
	if err := vacate(path); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".headgate-") // 0700: nobody else finds the socket before its mode is right
	if err != nil {
		return nil, fmt.Errorf("respapi: listen on %s: %w", path, err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is in it has moved, or failed to
	hidden := dir + "/s"
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: hidden, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("respapi: listen on %s: %w", path, err)
	}
	ln.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(hidden, mode.Perm()), os.Rename(hidden, path)); err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("respapi: listen on %s: %w", path, err)
	}
	return &unixListener{UnixListener: ln, path: path}, nil
}

// vacate removes a socket that nobody listens on.
func vacate(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("respapi: listen on %s: %w", path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("respapi: listen on %s: something is there that is no socket", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("respapi: listen on %s: another process listens there", path)
	}
	return os.Remove(path)
}

// unixListener knows its socket by the name that it has now.
type unixListener struct {
	*net.UnixListener
	path   string
	once   sync.Once
	closed error
}

// Addr is where clients find the listener.
func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close stops listening and removes the socket; only the first call does anything.
func (l *unixListener) Close() error {
	l.once.Do(func() { l.closed = errors.Join(os.Remove(l.path), l.UnixListener.Close()) })
	return l.closed
}
