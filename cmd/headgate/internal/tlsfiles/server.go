package tlsfiles

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// checkInterval is the minimum time between two checks whether the files have changed.
const checkInterval = time.Second

// Server provides the TLS configuration of one listener and reloads its files when they
// change. If the new files are invalid, the previous ones stay in use. Set the exported
// fields before the first call of Config, and do not change them afterwards.
type Server struct {
	Files
	Listener  string       // name of the listener, for errors and logs
	Protocols []string     // protocols for ALPN
	Log       *slog.Logger // required

	mu      sync.Mutex
	pipe    bool // one of the files is a pipe, which cannot be read again
	checked time.Time
	stamp   string // hash of the contents in use
	bad     string // stamp of the contents that were invalid at the last check; empty if there are none
	logged  string // stamp of the contents for which a failure has been logged
	config  *tls.Config
}

// Enabled reports whether at least one file is set, so that the listener must use TLS.
func (s *Server) Enabled() bool { return s.Cert != "" || s.Key != "" || s.CA != "" }

// Config reads the files and returns a TLS configuration that reloads them: a handshake
// reads the files again if the last check was at least a second ago. Config returns an
// error if the files are invalid. It logs a warning if the certificate has expired or
// is not yet valid.
func (s *Server) Config() (*tls.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.missing(); err != nil {
		return nil, fmt.Errorf("TLS of the %s listener: %w", s.Listener, err)
	}
	s.pipe = !regular(s.Cert) || !regular(s.Key) || s.CA != "" && !regular(s.CA)
	read, err := s.read()
	if err == nil {
		s.config, err = s.server(read, s.Protocols)
	}
	if err != nil {
		return nil, fmt.Errorf("TLS of the %s listener: %w", s.Listener, err)
	}
	if err := validNow(s.config); err != nil {
		s.Log.Warn("TLS certificate expired or not yet valid; clients will reject it", "listener", s.Listener, "error", err)
	}
	s.stamp = read.stamp()
	outer := s.config.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.current(), nil }
	return outer, nil
}

// missing returns an error that lists the settings that are not set and the files that
// do not exist.
func (s *Server) missing() error {
	var unset, problems []string
	for _, file := range []struct{ setting, path string }{{"tls_cert", s.Cert}, {"tls_key", s.Key}, {"client_ca", s.CA}} {
		setting := s.Listener + "." + file.setting
		if file.path == "" && file.setting != "client_ca" {
			unset = append(unset, setting)
		}
		if _, err := os.Stat(file.path); file.path != "" && err != nil {
			problems = append(problems, setting+": "+strings.Replace(err.Error(), "stat ", "open ", 1))
		}
	}
	switch len(unset) {
	case 1:
		both := s.Listener + ".tls_cert and " + s.Listener + ".tls_key"
		problems = append([]string{unset[0] + " is not set; set both " + both}, problems...)
	case 2:
		problems = append([]string{strings.Join(unset, " and ") + " are not set; set both"}, problems...)
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "; "))
}

// regular reports whether the file at path is neither a pipe nor a device.
func regular(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}

// current returns the configuration in use. It checks the files first if the last check
// was at least checkInterval ago.
func (s *Server) current() *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.pipe && time.Since(s.checked) >= checkInterval {
		s.checked = time.Now()
		s.check()
	}
	return s.config
}

// check reloads the files if they have changed. It logs a failure only if the next
// check finds the same contents, because a certificate and its key are in two files
// that may be replaced one after the other.
func (s *Server) check() {
	next, stamp, err := s.load()
	switch {
	case stamp == s.stamp:
		s.bad, s.logged = "", ""
	case err == nil:
		s.config, s.stamp, s.bad, s.logged = next, stamp, "", ""
		s.Log.Info("certificate reloaded", "listener", s.Listener)
	case stamp == s.bad && stamp != s.logged:
		s.logged = stamp
		s.Log.Error("certificate reload failed; previous certificate stays in use", "listener", s.Listener, "error", err)
	default:
		s.bad = stamp
	}
}

// load returns the configuration for the current contents of the files, and the stamp
// of these contents. If the contents are those in use, the configuration is nil.
func (s *Server) load() (config *tls.Config, stamp string, err error) {
	read, err := s.read()
	if err != nil {
		return nil, err.Error(), err
	}
	if stamp = read.stamp(); stamp == s.stamp {
		return nil, stamp, nil
	}
	if config, err = s.server(read, s.Protocols); err == nil {
		err = validNow(config)
	}
	return config, stamp, err
}

// stamp returns a hash that identifies the contents.
func (c *contents) stamp() string {
	all := sha256.New()
	for _, text := range c {
		fmt.Fprintf(all, "%d %s", len(text), text)
	}
	return string(all.Sum(nil))
}

// validNow returns an error if the certificate has expired or is not yet valid.
func validNow(config *tls.Config) error {
	leaf := config.Certificates[0].Leaf
	if now := time.Now(); now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return fmt.Errorf("it is valid from %s to %s, but not now", leaf.NotBefore.Format(time.RFC3339), leaf.NotAfter.Format(time.RFC3339))
	}
	return nil
}
