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

// ListenUnix listens on a unix socket with the permissions mode. Mode 0 means 0600:
// only the owner has access. The socket never exists with other permissions. ListenUnix
// replaces a stale socket at path, and returns an error if any other file is there.
func ListenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	if mode == 0 {
		mode = 0o600
	}
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".headgate-") // mode 0700: no other user can connect before chmod
	if err != nil {
		return nil, fmt.Errorf("respapi: listen on %s: %w", path, err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // empty after the rename
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

// removeStaleSocket removes a socket that no process listens on. It returns an error if
// path is another kind of file or if a process listens on it.
func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("respapi: listen on %s: %w", path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("respapi: listen on %s: the file exists and is not a socket", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("respapi: listen on %s: another process is listening on the socket", path)
	}
	return os.Remove(path)
}

// unixListener is a listener whose socket was renamed to path after it was created.
type unixListener struct {
	*net.UnixListener
	path   string
	once   sync.Once
	closed error
}

// Addr returns the path of the socket.
func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close closes the listener and removes the socket. Only the first call has an effect.
func (l *unixListener) Close() error {
	l.once.Do(func() { l.closed = errors.Join(os.Remove(l.path), l.UnixListener.Close()) })
	return l.closed
}
