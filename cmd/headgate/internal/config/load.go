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

// Sources are where a configuration comes from. Flags win over the environment, that over the file, and the file over the defaults.
type Sources struct {
	// Path is the file; empty means that there is none.
	Path string
	// Flags are the settings that were given as flags, by path.
	Flags map[string]string
	// Lookup finds variables, os.LookupEnv mostly; nil means that there are none. An empty variable is none.
	Lookup func(string) (string, bool)
	// Environ are all variables, “NAME=value”, os.Environ mostly: one that begins with [Prefix], is not empty and sets nothing is an error,
	// unless Kubernetes sets it.
	Environ []string
	// Others are variables of other commands, which are no errors, and set nothing.
	Others []string
	// Ratelimit takes the environment for that of envoyproxy/ratelimit. It is also taken for that if one of its RUNTIME_ROOT,
	// RUNTIME_SUBDIRECTORY and RUNTIME_APPDIRECTORY is there.
	Ratelimit bool
	// CheckStore says what is wrong with a store's URL, without the URL; nil accepts all.
	CheckStore func(StoreURL) error
}

// Config is a configuration as it is in force.
type Config struct {
	File
	// Origins say where each setting came from, by path: “default”, “--http-addr”, “HEADGATE_HTTP_ADDR” or “headgate.yaml:3”.
	Origins map[string]string
	// Warnings are what works, and is hardly meant.
	Warnings []string
	parsed   *Parsed
	text     []byte // of the file
}

// Load reads all sources. The error is [Errors] if anything in them is wrong, or says that the file could not be read.
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

// load is [Sources.Load] with the file's text.
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

// ReadFile reads a configuration file, however large it claims to be.
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
	return fmt.Errorf("cannot read the configuration %s: %w", path, err)
}

// Over puts flags and environment over what a file says, and that over the defaults. The file may be nil.
func (s *Sources) Over(parsed *Parsed) (*Config, error) {
	c := &Config{Origins: make(map[string]string, len(settings)), parsed: parsed}
	incumbent, errs := s.ratelimit(c)
	errs = append(errs, s.strangers(c)...)
	for i := range settings {
		if wrong := s.settle(&settings[i], c, parsed, incumbent[settings[i].Path]); wrong != nil {
			errs = append(errs, wrong)
		}
	}
	if parsed != nil {
		c.Policies, c.Routes = parsed.File.Policies, parsed.File.Routes
	}
	s.chooseRedis(c)
	for _, wrong := range []*Error{s.checkStore(c), c.checkAdmin(), c.checkXDS()} {
		if wrong != nil {
			errs = append(errs, wrong)
		}
	}
	if err := errs.orNil(); err != nil {
		return nil, err
	}
	c.setDefaults()
	c.chooseRules()
	c.warn()
	return c, nil
}

// settle finds the value of one setting.
func (s *Sources) settle(setting *Setting, c *Config, parsed *Parsed, incumbent foreign) *Error {
	origin, value := "default", setting.Default
	fromFile := parsed != nil && parsed.sets(setting.Path)
	if flag, ok := s.Flags[setting.Path]; ok {
		origin, value = "--"+setting.Flag, flag
	} else if variable, ok := s.lookup(setting.Env); ok {
		origin, value = setting.Env, variable
	} else if incumbent.name != "" && (incumbent.given || !fromFile) {
		origin, value = incumbent.name, incumbent.value
	} else if fromFile {
		setting.copy(&c.File, &parsed.File)
		c.Origins[setting.Path] = parsed.Source + ":" + strconv.Itoa(parsed.at[setting.Path].line)
		return nil
	}
	c.Origins[setting.Path] = origin
	if value == "" && setting.Default == "" {
		return nil // nothing, which a flag can put in the place of what the file says
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

// chooseRedis takes the Redis of the environment, if no store was chosen otherwise.
func (s *Sources) chooseRedis(c *Config) {
	if c.Origins["store"] != "default" {
		return
	}
	if url, ok := RedisOf(s.lookup); ok {
		c.Store, c.Origins["store"] = url, "REDIS_HOST, REDIS_PORT"
	}
}

// RedisOf is the Redis that REDIS_HOST and REDIS_PORT name; one of them is enough. Kubernetes sets a REDIS_PORT of its own,
// tcp://address:port, beside every service called redis: alone it names nothing.
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
	return StoreURL("redis://" + net.JoinHostPort(cmp.Or(host, "127.0.0.1"), cmp.Or(port, "6379"))), true
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

// wrong is an error about a setting, where its value came from.
func (c *Config) wrong(path, message string) *Error {
	e := &Error{Source: c.Origins[path], Message: message}
	if c.parsed != nil && c.parsed.sets(path) && strings.HasPrefix(e.Source, c.parsed.Source+":") {
		at := c.parsed.at[path]
		e.Source, e.Line, e.Column, e.Path = c.parsed.Source, at.line, at.column, path
	}
	return e
}

// setDefaults gives policies what they do not say and the file says for all.
func (c *Config) setDefaults() {
	for name, p := range c.Policies {
		if p.OnStoreError == "" {
			p.OnStoreError = c.OnStoreError
			c.Policies[name] = p
		}
	}
}

// warn finds what works, and is hardly meant.
func (c *Config) warn() {
	local := c.OnStoreError == headgate.FailLocal
	for _, p := range c.Policies {
		local = local || p.OnStoreError == headgate.FailLocal
	}
	if local && c.Instances == 0 && !strings.HasPrefix(strings.ToLower(string(c.Store)), "memory") {
		c.Warnings = append(c.Warnings, "on_store_error local grants each instance its share of a limit, and instances does not say how many "+
			"there are: it is taken for 1, so that several of them together admit several times the limit while the store is away")
	}
	for _, n := range c.TrustedProxies {
		if n.Bits() == 0 {
			c.Warnings = append(c.Warnings, "trusted_proxies holds "+n.String()+": whoever reaches this service says which client it is")
		}
	}
	for _, s := range settings {
		if value := s.raw(&c.File); value == masked || strings.Contains(value, masked+":"+masked+"@") {
			c.Warnings = append(c.Warnings, s.Path+" holds "+masked+", which config print writes in the place of a secret: put the secret there")
		}
	}
	if c.Enforcement == engine.Off {
		c.Warnings = append(c.Warnings, "enforcement is off: everybody is admitted and nothing is charged")
	}
}
