package main

import (
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
)

const packaging = "../../packaging"

// The flags in the packaging files exist.
func TestPackagingUsesKnownFlags(t *testing.T) {
	t.Parallel()
	flags := serveCommand().Flags()
	for file, least := range map[string]int{"headgate.service": 3, "Dockerfile": 4, "kustomize/kubernetes.yaml": 8} {
		used := regexp.MustCompile(`(?:^|[ "])--([a-z][a-z-]*)`).FindAllStringSubmatch(commands(t, file), -1)
		if len(used) < least {
			t.Errorf("%s: found %d flags, want at least %d", file, len(used), least)
		}
		for _, f := range used {
			if flags.Lookup(f[1]) == nil {
				t.Errorf("%s: unknown flag --%s", file, f[1])
			}
		}
	}
}

// commands returns the lines of a file that start headgate serve.
func commands(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(packaging, file))
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "ExecStart=") || strings.HasPrefix(line, "CMD ") || strings.HasPrefix(strings.TrimSpace(line), "- --") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// The packaged configurations are valid.
func TestPackagedConfigurationsAreValid(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(packaging + "/headgate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"headgate.yaml": string(text), "kubernetes.yaml": inConfigMap(t)} {
		parsed, err := config.Parse(name, []byte(text))
		if err != nil || len(parsed.File.Policies) != 4 || len(parsed.File.Routes) != 2 {
			t.Errorf("%s: %v, want four policies and two routes", name, err)
		}
	}
}

// A client that invents a key for each request gets no more than one without a key, and
// one with many IPv6 networks no more than one of them is allowed: also in the quick
// start. config check has no warning about routes.
func TestPackagedPoliciesCannotBeEvaded(t *testing.T) {
	t.Parallel()
	for _, file := range []string{packaging + "/headgate.yaml", "../../quickstart/headgate.yaml", packagedForKubernetes(t)} {
		from := config.Sources{Path: file, Flags: map[string]string{"store": "memory://"}}
		c, err := from.Load()
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range c.Warnings {
			if strings.Contains(w, "routes") || strings.Contains(w, "trusted_proxies") {
				t.Errorf("%s: warning: %s", file, w)
			}
		}
		routes := c.Engine().Routes
		for name, differ := range map[string]func(r *routing.Request, n int){
			"made-up keys":    func(r *routing.Request, n int) { r.Header = http.Header{"X-Api-Key": {strconv.Itoa(n)}} },
			"made-up tenants": func(r *routing.Request, n int) { r.Header = http.Header{"X-Tenant": {strconv.Itoa(n)}} },
			"networks of a /48": func(r *routing.Request, n int) {
				r.Method, r.Path = "POST", "/login"
				r.ClientAddr = netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 2: 0xd, 3: 0xb8, 6: byte(n >> 8), 7: byte(n), 15: 1})
			},
		} {
			if strings.Contains(file, "quickstart") && name == "networks of a /48" {
				continue // its address is always that of this machine
			}
			shared := make(map[string]map[string]bool) // keys by policy
			for n := range 300 {
				r := &routing.Request{Method: "GET", Path: "/api/items", ClientAddr: netip.MustParseAddr("203.0.113.9")}
				differ(r, n)
				for _, charge := range routes.AppendPolicyKeys(nil, r) {
					if shared[charge.Policy] == nil {
						shared[charge.Policy] = make(map[string]bool)
					}
					shared[charge.Policy][charge.Key] = true
				}
			}
			least := 300
			for _, keys := range shared {
				least = min(least, len(keys))
			}
			if least != 1 {
				t.Errorf("%s: %s: every policy has at least %d budgets for 300 requests; want one that all of them share", file, name, least)
			}
		}
	}
}

// packagedForKubernetes returns the path of a copy of the file in the ConfigMap.
func packagedForKubernetes(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubernetes.yaml")
	if err := os.WriteFile(path, []byte(inConfigMap(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// inConfigMap returns the configuration in kubernetes.yaml.
func inConfigMap(t *testing.T) string {
	t.Helper()
	manifest, err := os.ReadFile(packaging + "/kustomize/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, inside, _ := strings.Cut(string(manifest), "headgate.yaml: |\n")
	inside, _, _ = strings.Cut(inside, "---\n")
	return regexp.MustCompile(`(?m)^    `).ReplaceAllString(inside, "")
}

// The time before SIGKILL is longer than the shutdown of the service.
func TestPackagingAllowsShutdown(t *testing.T) {
	t.Parallel()
	for file, c := range map[string]struct{ told, killed *regexp.Regexp }{
		"headgate.service":          {regexp.MustCompile(`--(?:drain-delay|shutdown-timeout)[ =](\d+s)`), regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+s)$`)},
		"kustomize/kubernetes.yaml": {regexp.MustCompile(`--(?:drain-delay|shutdown-timeout)=(\d+s)`), regexp.MustCompile(`terminationGracePeriodSeconds: (\d+)`)},
	} {
		text, err := os.ReadFile(filepath.Join(packaging, file))
		if err != nil {
			t.Fatal(err)
		}
		stopping, killed := seconds(t, c.told.FindAllStringSubmatch(string(text), -1)), seconds(t, c.killed.FindAllStringSubmatch(string(text), -1))
		if stopping == 0 || killed < stopping+5*time.Second {
			t.Errorf("%s: the shutdown takes up to %v, and SIGKILL follows after %v", file, stopping, killed)
		}
	}
}

// seconds adds up the durations in the matches.
func seconds(t *testing.T, found [][]string) (sum time.Duration) {
	t.Helper()
	for _, m := range found {
		d, err := time.ParseDuration(strings.TrimSuffix(m[1], "s") + "s")
		if err != nil {
			t.Fatal(err)
		}
		sum += d
	}
	return sum
}
