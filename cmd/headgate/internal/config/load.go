package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// Sources are the sources of a configuration. Flags override environment variables,
// variables override the file, and the file overrides the defaults.
type Sources struct {
	// Path is the path of the configuration file; empty if there is none.
	Path string
	// Flags maps the paths of settings to the texts of the flags that were given.
	Flags map[string]string
	// Lookup returns the value of an environment variable, like os.LookupEnv. An empty
	// variable is ignored. Nil means that there are no variables.
	Lookup func(string) (string, bool)
	// Environ has all environment variables as “NAME=value”, like os.Environ. A
	// variable that begins with [Prefix], is not empty and is not a setting is an
	// error, unless Kubernetes or Docker sets it.
	Environ []string
	// Others are the names of variables that other commands use. They have no effect
	// and are not errors.
	Others []string
	// Ratelimit enables compatibility with the environment variables of
	// envoyproxy/ratelimit. Compatibility is also enabled if one of its variables
	// RUNTIME_ROOT, RUNTIME_SUBDIRECTORY, RUNTIME_APPDIRECTORY and
	// CONFIG_GRPC_XDS_SERVER_URL is set.
	Ratelimit bool
	// CheckStore returns an error for an invalid store URL. The error must not
	// contain the URL. Nil accepts all URLs.
	CheckStore func(StoreURL) error
	// MaxOpenHolds returns the maximum number of open holds of a key in the store. Nil
	// accepts [headgate.MaxOpenHolds].
	MaxOpenHolds func(StoreURL) int
}

// Config is an effective configuration.
type Config struct {
	File
	// Origins maps the paths of settings to the origin of their value: “default”,
	// “--http-addr”, “HEADGATE_HTTP_ADDR” or “headgate.yaml:3”.
	Origins map[string]string
	// Warnings describe valid but suspicious settings.
	Warnings []string
	parsed   *Parsed
	text     []byte // contents of the file
}

// Load reads all sources. It returns [Errors] if the contents of a source are invalid,
// or another error if the file cannot be read.
func (s *Sources) Load() (*Config, error) {
	var text []byte
	if s.Path != "" {
		var err error
		if text, err = ReadFile(s.Path); err != nil {
			return nil, err
		}
	}
	return s.load(text)
}

// load is like [Sources.Load], but the caller has already read the file: text is its
// contents.
func (s *Sources) load(text []byte) (*Config, error) {
	if s.Path == "" {
		return s.Over(nil)
	}
	parsed, err := Parse(s.Path, text)
	var wrong Errors
	if err != nil && !errors.As(err, &wrong) {
		return nil, err
	}
	c, err := s.Over(parsed)
	var more Errors
	if err != nil && !errors.As(err, &more) {
		return nil, err
	}
	if all := append(wrong, more...); len(all) > 0 {
		return nil, all
	}
	c.text = text
	return c, nil
}

// ReadFile reads a configuration file. It reads at most [MaxFileBytes]+1 bytes, so that
// the caller can detect a file that is too large.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, readError(path, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, readError(path, err)
	}
	return text, nil
}

func readError(path string, err error) error {
	if cause := (*fs.PathError)(nil); errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("cannot read configuration file %s: %w", path, err)
}

// Over returns the configuration of a parsed file, in which flags and environment
// variables override the file. The parameter parsed may be nil.
func (s *Sources) Over(parsed *Parsed) (*Config, error) {
	c := &Config{Origins: make(map[string]string, len(settings)), parsed: parsed}
	compat, errs := s.ratelimitSettings(c)
	standard, more := s.otelSettings(c)
	errs = append(errs, more...)
	errs = append(errs, s.unknownEnv(c)...)
	for i := range settings {
		path := settings[i].Path
		if wrong := s.resolve(&settings[i], c, parsed, preferSet(compat[path], standard[path])); wrong != nil {
			errs = append(errs, wrong)
		}
	}
	if parsed != nil {
		c.Policies, c.Routes = parsed.File.Policies, parsed.File.Routes
		c.Admin.Tokens, c.HTTP.Tokens, c.RESP.Users = parsed.File.Admin.Tokens, parsed.File.HTTP.Tokens, parsed.File.RESP.Users
	}
	s.applyRedisEnv(c)
	if compat != nil {
		c.warnStore()
	}
	for _, wrong := range []*Error{s.checkStore(c), c.checkAdmin(), c.checkXDS(), c.checkEvents()} {
		if wrong != nil {
			errs = append(errs, wrong)
		}
	}
	errs = append(errs, c.checkTrustedHeaders()...)
	errs = append(errs, c.checkTelemetry()...)
	errs = append(errs, c.checkLeases()...)
	errs = append(errs, s.checkMaxOpen(c)...)
	if err := errs.orNil(); err != nil {
		return nil, err
	}
	c.setDefaults()
	c.chooseRules()
	c.warn()
	return c, nil
}

// preferSet returns the value of a variable that is set: that of envoyproxy/ratelimit, or
// else the standard one. If neither is set, it returns the default of
// envoyproxy/ratelimit.
func preferSet(compat, standard envValue) envValue {
	if standard.set && !compat.set {
		return standard
	}
	return compat
}

// resolve sets one setting to its value in the source with the highest precedence.
func (s *Sources) resolve(setting *Setting, c *Config, parsed *Parsed, compat envValue) *Error {
	origin, value := "default", setting.Default
	fromFile := parsed != nil && parsed.sets(setting.Path)
	if flag, ok := s.Flags[setting.Path]; ok {
		origin, value = "--"+setting.Flag, flag
	} else if variable, ok := s.lookup(setting.Env); ok {
		origin, value = setting.Env, variable
	} else if compat.name != "" && (compat.set || !fromFile) {
		origin, value = compat.name, compat.value
	} else if fromFile {
		setting.copy(&c.File, &parsed.File)
		line := parsed.at[setting.Path].line
		c.Origins[setting.Path] = parsed.Source + ":" + strconv.Itoa(line)
		return nil
	}
	c.Origins[setting.Path] = origin
	if value == "" && setting.Default == "" {
		return nil // an empty flag clears a setting whose default is empty
	}
	if wrong := setting.set(&c.File, value); wrong != nil {
		return &Error{Source: origin, Message: wrong.message}
	}
	return nil
}

func (s *Sources) lookup(name string) (string, bool) {
	if s.Lookup == nil {
		return "", false
	}
	value, ok := s.Lookup(name)
	return value, ok && value != ""
}

// applyRedisEnv sets the store to the Redis server in REDIS_HOST and REDIS_PORT if no
// other source sets the store.
func (s *Sources) applyRedisEnv(c *Config) {
	if c.Origins["store"] != "default" {
		return
	}
	if url, ok := RedisOf(s.lookup); ok {
		c.Store, c.Origins["store"] = url, "REDIS_HOST, REDIS_PORT"
	}
}

// RedisOf returns the URL of the Redis server in REDIS_HOST and REDIS_PORT; if only one
// is set, the other is 127.0.0.1 or 6379. For a Service named redis, Kubernetes sets
// REDIS_PORT to tcp://address:port. Without REDIS_HOST, such a value is ignored, and
// RedisOf returns false.
func RedisOf(lookup func(string) (string, bool)) (StoreURL, bool) {
	host, _ := lookup("REDIS_HOST")
	port, _ := lookup("REDIS_PORT")
	linked := strings.Contains(port, "://")
	if host == "" && (port == "" || linked) {
		return "", false
	}
	if linked {
		port = port[strings.LastIndexByte(port, ':')+1:]
	}
	addr := net.JoinHostPort(cmp.Or(host, "127.0.0.1"), cmp.Or(port, "6379"))
	return StoreURL("redis://" + addr), true
}

func (s *Sources) checkStore(c *Config) *Error {
	if s.CheckStore == nil || c.Store == "" {
		return nil
	}
	err := s.CheckStore(c.Store)
	if err == nil {
		return nil
	}
	return c.wrong("store", err.Error())
}

// wrong returns an error about a setting, with its origin and position.
func (c *Config) wrong(path, message string) *Error {
	e := &Error{Source: c.Origins[path], Message: message}
	if c.fromFile(path) {
		at := c.parsed.at[path]
		e.Source, e.Line, e.Column, e.Path = c.parsed.Source, at.line, at.column, path
	}
	return e
}

// fromFile reports whether the effective value of a setting comes from the file.
func (c *Config) fromFile(path string) bool {
	return c.parsed != nil && c.parsed.sets(path) &&
		strings.HasPrefix(c.Origins[path], c.parsed.Source+":")
}

// setDefaults sets on_store_error in policies that do not set it to the value of the
// service.
func (c *Config) setDefaults() {
	for name, p := range c.Policies {
		if p.OnStoreError == "" {
			p.OnStoreError = c.OnStoreError
			c.Policies[name] = p
		}
	}
}

// warn adds warnings about valid but suspicious settings.
func (c *Config) warn() {
	local := c.OnStoreError == headgate.FailLocal
	for _, p := range c.Policies {
		local = local || p.OnStoreError == headgate.FailLocal
	}
	if local && c.Instances == 0 && !c.inMemory() {
		c.Warnings = append(c.Warnings, "on_store_error: local without instances: each instance "+
			"allows the full limit while the store is unavailable; set instances to the number "+
			"of instances that share the store")
	}
	for _, n := range c.TrustedProxies {
		if n.Bits() == 0 {
			c.Warnings = append(c.Warnings, "trusted_proxies contains "+n.String()+
				": any client can forge its address; list only the networks of your proxies")
		}
	}
	c.warnOfOpenListeners()
	c.warnOfRoutes()
	c.warnOfLeases()
	c.warnOfTokens()
	c.warnOfEvents()
	for i := range settings {
		c.warnOfText(&settings[i])
	}
	if c.Enforcement == engine.Off {
		c.Warnings = append(c.Warnings,
			"enforcement is off: all requests are allowed and nothing is charged")
	}
}

// warnOfText adds a warning if a setting contains the placeholder that is printed
// instead of a secret, or a reference to an environment variable.
func (c *Config) warnOfText(s *Setting) {
	value := s.raw(&c.File)
	if value == masked || strings.Contains(value, masked+":"+masked+"@") {
		c.Warnings = append(c.Warnings, maskedWarning(s.Path))
	}
	if variable := variableReference(value); variable != "" && c.fromFile(s.Path) {
		c.Warnings = append(c.Warnings, s.Path+": "+notInterpolated(variable, s.Path))
	}
}

func maskedWarning(path string) string {
	return path + " contains " + masked + ", the placeholder that config print writes for a " +
		"secret; replace it with the secret"
}
