package modules_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pinned contains requirements of a program with older versions than the latest, as is
// common for large programs.
const pinned = `module example.com/program

go 1.25.0

require (
	github.com/prometheus/client_golang v1.20.5
	github.com/redis/go-redis/v9 v9.7.0
	github.com/spf13/cobra v1.8.1
	google.golang.org/grpc v1.68.0
)
`

const programWithoutHeadgate = `package main

import (
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/redis/go-redis/v9"
	_ "github.com/spf13/cobra"
	_ "google.golang.org/grpc"
)

func main() {}
`

const programWithMiddleware = `package main

import (
	_ "github.com/headgate/headgate"
	_ "github.com/headgate/headgate/httplimit"
	_ "github.com/headgate/headgate/memstore"
)
`

const programWithRedisStore = `package main

import (
	_ "github.com/headgate/headgate"
	_ "github.com/headgate/headgate/httplimit"
	_ "github.com/headgate/headgate/memstore"
	_ "github.com/headgate/headgate/redisstore"
)
`

// A program that imports the library keeps the versions of its go.mod. The
// exceptions are those of golang.org/x that the Redis client requires in its own
// go.mod.
func TestImportingTheLibraryKeepsPinnedVersions(t *testing.T) {
	t.Parallel()
	before := tidied(t, "")
	for _, c := range []struct {
		name, imports string
		mayChange     []string
	}{
		{"middleware", programWithMiddleware, []string{"golang.org/x/sys"}},
		{"middleware and Redis", programWithRedisStore, []string{"golang.org/x/sys", "golang.org/x/net", "golang.org/x/text"}},
	} {
		after := tidied(t, c.imports)
		if after[modulePath] == "" {
			t.Fatalf("%s: the program does not require Headgate", c.name)
		}
		for module, version := range before {
			if got := after[module]; got != version && !slices.Contains(c.mayChange, module) {
				t.Errorf("%s: importing Headgate changed %s from %s to %s", c.name, module, version, got)
			}
		}
	}
}

// tidied creates the program with an additional file of imports and returns the versions
// in its build.
func tidied(t *testing.T, imports string) map[string]string {
	t.Helper()
	folder := t.TempDir()
	write(t, folder, "go.mod", pinned)
	write(t, folder, "main.go", programWithoutHeadgate)
	if imports != "" {
		write(t, folder, "headgate.go", imports)
		run(t, folder, nil, "go", "mod", "edit", "-require="+modulePath+"@v0.0.0", "-replace="+modulePath+"="+repository(t))
	}
	run(t, folder, nil, "go", "mod", "tidy")
	if testing.Short() {
		run(t, folder, nil, "go", "list", "-deps", ".")
	} else {
		run(t, folder, nil, "go", "build", "-o", filepath.Join(folder, "program"), ".")
	}
	versions := make(map[string]string)
	for _, require := range readGoMod(t, folder).Require {
		versions[require.Path] = require.Version
	}
	return versions
}

// The library compiles only its own code and the standard library into a program that
// uses no network store.
func TestMiddlewareWithMemstoreHasNoThirdPartyPackages(t *testing.T) {
	t.Parallel()
	packages := strings.Fields(run(t, repository(t), nil, "go", "list", "-deps", "./httplimit", "./memstore", "./loginguard"))
	for _, imported := range packages {
		first, _, _ := strings.Cut(imported, "/")
		if strings.Contains(first, ".") && !strings.HasPrefix(imported, modulePath) {
			t.Errorf("%s is compiled in", imported)
		}
	}
	if len(packages) < 10 {
		t.Errorf("go list found %d packages in %s", len(packages), filepath.Base(repository(t)))
	}
}
