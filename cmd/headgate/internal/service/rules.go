package service

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyxds"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
)

// envoyRules applies rules in the format of envoyproxy/ratelimit to the handler for
// Envoy, and logs the results.
type envoyRules struct {
	config  *config.Envoy
	parse   *envoyconfig.ParseOptions
	handler *rlsapi.Handler
	log     *slog.Logger
	refused atomic.Bool // whether the last configuration was invalid
	first   sync.Once
	ready   chan struct{} // closed after the first configuration has been applied
}

func newEnvoyRules(c *config.Config, handler *rlsapi.Handler, log *slog.Logger) *envoyRules {
	return &envoyRules{config: &c.Envoy, parse: parseOptions(c), handler: handler, log: log, ready: make(chan struct{})}
}

func parseOptions(c *config.Config) *envoyconfig.ParseOptions {
	return &envoyconfig.ParseOptions{MergeDomains: c.Envoy.MergeDomains, CalendarMonths: c.Envoy.CalendarMonths, CheckLease: c.CheckLease}
}

func folderOptions(c *config.Envoy) envoyconfig.FolderOptions {
	return envoyconfig.FolderOptions{DotFiles: c.DotFiles, AllFiles: c.AllFiles}
}

// CheckEnvoy checks the files in the folder envoy.config. It returns the number of
// domains and the warnings. The error contains the errors of all files.
func CheckEnvoy(c *config.Config) (domains int, warnings []string, err error) {
	loaded, err := envoyconfig.Load(string(c.Envoy.Config), &envoyconfig.LoadOptions{ParseOptions: *parseOptions(c), FolderOptions: folderOptions(&c.Envoy)})
	if err != nil {
		return 0, nil, err
	}
	for _, w := range loaded.Warnings() {
		warnings = append(warnings, w.String())
	}
	return loaded.Domains(), warnings, nil
}

// Apply applies all resources of a control plane or none.
func (r *envoyRules) Apply(resources []*envoyxds.Resource) error {
	c, err := envoyconfig.ParseResources(resources, r.parse)
	if err == nil {
		err = r.handler.Apply(c)
	}
	if err == nil {
		r.refused.Store(false)
		r.applied(c, "resources", len(resources))
	}
	return err
}

// Refused logs why the resources of a control plane were not applied.
func (r *envoyRules) Refused(err error) {
	r.refused.Store(true)
	r.logRefused(err)
}

// useFiles applies the rules c in the files of a folder.
func (r *envoyRules) useFiles(c *envoyconfig.Config, files []envoyconfig.File) error {
	err := r.handler.Apply(c)
	if err == nil {
		read := slices.DeleteFunc(slices.Clone(files), func(f envoyconfig.File) bool { return f.Skipped })
		r.applied(c, "files", len(read))
	}
	return err
}

// applied logs that a configuration was applied, and then closes ready if it is the
// first. The parameter n is the number of files or resources, and kind is the word for
// them.
func (r *envoyRules) applied(c *envoyconfig.Config, kind string, n int) {
	defer r.first.Do(func() { close(r.ready) })
	r.log.Info("Envoy configuration loaded", kind, n, "domains", c.Domains(), "rules", len(c.Rules()))
	for _, w := range c.Warnings()[:min(len(c.Warnings()), maxLoggedErrors)] {
		r.log.Warn("Envoy configuration warning", "warning", shorten(w.String()))
	}
	switch {
	case c.Domains() > 0:
	case r.config.XDS.Server != "":
		r.log.Warn("xDS configuration has no domains; all requests are allowed")
	default:
		r.log.Warn("no Envoy configuration files found; all requests are allowed", "folder", string(r.config.Config))
	}
}

// configured reports whether a configuration has been applied.
func (r *envoyRules) configured() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

// logRefused counts an invalid configuration and logs each error, with the message of
// envoyproxy/ratelimit and the position.
func (r *envoyRules) logRefused(err error) {
	if !errors.Is(err, rlsapi.ErrConfig) { // the handler has counted an ErrConfig
		r.handler.Refused()
	}
	message := "invalid Envoy configuration; no rules loaded"
	if r.configured() {
		message = "invalid Envoy configuration; previous rules stay in effect"
	}
	var all envoyconfig.Errors
	if !errors.As(err, &all) {
		r.log.Error(message, "error", shorten(err.Error()))
		return
	}
	r.log.Error(message, "errors", len(all))
	for _, one := range all[:min(len(all), maxLoggedErrors)] {
		r.log.Error("Envoy configuration error", "error", shorten(one.Error()), "at", one.Place())
	}
}

const (
	maxLoggedErrors = 10      // maximum for one configuration; headgate config check prints all
	maxErrorBytes   = 1 << 10 // maximum size of an error in the log, because it may contain a name of any length
)

func shorten(text string) string {
	if len(text) > maxErrorBytes {
		text = strings.ToValidUTF8(text[:maxErrorBytes], "") + "…"
	}
	return text
}
