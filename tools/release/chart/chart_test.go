// Package chart_test renders the Helm chart and the base for Kustomize, and checks the
// manifests with the schemas of Kubernetes and with headgate.
package chart_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

const chartFolder = "../../../packaging/chart"

// everything turns on all optional parts of the chart.
const everything = `
resp: {enabled: true, passwordSecret: {name: headgate-resp}}
storeSecret: {name: headgate-store}
adminTokenSecret: {name: headgate-admin}
autoscaling: {enabled: true}
networkPolicy: {enabled: true, from: [{namespaceSelector: {matchLabels: {name: web}}}]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
serviceAccount: {annotations: {example.com/role: limiter}}
service: {annotations: {example.com/zone: a}}
restartOnConfigChange: true
extraEnv: [{name: TZ, value: UTC}]
extraArgs: [--log-level=debug]
imagePullSecrets: [{name: registry}]
podAnnotations: {example.com/a: b}
podLabels: {team: edge}
nodeSelector: {disk: ssd}
tolerations: [{key: dedicated, operator: Exists}]
affinity: {podAntiAffinity: {}}
priorityClassName: high
config: {instances: 10, trusted_proxies: ["10.0.7.0/28"], http: {max_memory_bytes: 402653184}}
`

// The rendered manifests are valid for Kubernetes, and headgate serve accepts their
// flags and configuration.
func TestChart(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "headgate")
	command(t, "../../..", "go", "build", "-o", program, "./cmd/headgate")
	for name, c := range map[string]struct {
		values string
		kinds  string
	}{
		"defaults": {"", "ConfigMap Deployment PodDisruptionBudget Service ServiceAccount"},
		"everything": {
			everything,
			"ConfigMap Deployment HorizontalPodAutoscaler NetworkPolicy PodDisruptionBudget Service ServiceAccount ServiceMonitor",
		},
		"little": {
			"serviceAccount: {create: false}\npodDisruptionBudget: {enabled: false}\nnetworkPolicy: {enabled: true}\nreplicas: 1",
			"ConfigMap Deployment NetworkPolicy Service",
		},
	} {
		manifests, err := render(t, c.values)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		checkManifests(t, name, program, manifests, c.kinds)
	}
}

// The base for Kustomize is valid for Kubernetes, and headgate serve accepts its flags
// and configuration.
func TestKustomizeBase(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "headgate")
	command(t, "../../..", "go", "build", "-o", program, "./cmd/headgate")
	folder := "../../../packaging/kustomize"
	var base struct{ Resources []string }
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(folder, "kustomization.yaml"))), &base); err != nil {
		t.Fatal(err)
	}
	var manifests []manifest
	for _, file := range base.Resources {
		manifests = append(manifests, parse(t, read(t, filepath.Join(folder, file)))...)
	}
	checkManifests(t, "kustomize", program, manifests, "ConfigMap Deployment PodDisruptionBudget Service")
}

// The values in the documentation render.
func TestChartExampleValues(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(read(t, "../../../docs/operate/kubernetes.md"), "<!-- run: TestChartExampleValues -->\n```yaml\n")
	values, _, found := strings.Cut(rest, "```")
	if _, err := render(t, values); err != nil || !found {
		t.Errorf("%v with the values:\n%s", err, values)
	}
}

// Mistakes in values are errors that contain the value to set.
func TestChartRejectsMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ values, want string }{
		{"autoscaling: {enabled: true}", "Set config.instances to autoscaling.maxReplicas"},
		{"autoscaling: {enabled: true}\nconfig: {on_store_error: open, policies: {api: {on_store_error: local}}}", "config.instances is missing"},
		{"resp: {enabled: true}", "resp.passwordSecret.name is required"},
		{"replica: 3", "replica"},
		{"service: {type: None}", "/service/type"},
	} {
		if _, err := render(t, c.values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got error %v, want one with %q", c.values, err, c.want)
		}
	}
	if _, err := render(t, "autoscaling: {enabled: true}\nconfig: {on_store_error: open}"); err != nil {
		t.Errorf("autoscaling without the failure mode local: %v", err)
	}
}

func TestChartLint(t *testing.T) {
	t.Parallel()
	for _, m := range lint.All(chartFolder, map[string]any{}, "default", true).Messages {
		if m.Severity > support.InfoSev {
			t.Errorf("%s: %v", m.Path, m.Err)
		}
	}
}

// The README of the chart names each value.
func TestChartValuesAreDocumented(t *testing.T) {
	t.Parallel()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(read(t, chartFolder+"/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	text := read(t, chartFolder+"/README.md")
	for name, value := range values {
		keys := []string{"`" + name + "`"}
		if below, isMap := value.(map[string]any); isMap && name != "config" && name != "resources" {
			keys = nil
			for key := range below {
				keys = append(keys, "."+key)
			}
		}
		for _, key := range keys {
			if !strings.Contains(text, key) {
				t.Errorf("README.md does not document %s of %s", key, name)
			}
		}
	}
}

type manifest map[string]any

func (m manifest) kind() string { return fmt.Sprint(m["kind"]) }

// render returns the manifests of the chart with values, given as YAML.
func render(t *testing.T, values string) ([]manifest, error) {
	t.Helper()
	chart, err := loader.LoadDir(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	release := chartutil.ReleaseOptions{Name: "limits", Namespace: "edge", IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, given, release, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	var manifests []manifest
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			manifests = append(manifests, parse(t, text)...)
		}
	}
	return manifests, nil
}

// parse returns the documents of a YAML file that are not empty.
func parse(t *testing.T, text string) (all []manifest) {
	t.Helper()
	for _, document := range strings.Split(text, "\n---\n") {
		var m manifest
		if err := yaml.UnmarshalStrict([]byte(document), &m); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if len(m) > 0 {
			all = append(all, m)
		}
	}
	return all
}

func checkManifests(t *testing.T, name, program string, manifests []manifest, kinds string) {
	t.Helper()
	var got []string
	for _, m := range manifests {
		got = append(got, m.kind())
		if err := validate(m); err != nil {
			t.Errorf("%s: %s: %v", name, m.kind(), err)
		}
	}
	if slices.Sort(got); strings.Join(got, " ") != kinds {
		t.Errorf("%s: got %q, want %q", name, got, kinds)
	}
	checkService(t, name, program, manifests)
}

// validate checks a manifest with the schema of its kind.
func validate(m manifest) error {
	file := "testdata/kubernetes-1.34.json"
	if m.kind() == "ServiceMonitor" {
		file = "testdata/servicemonitor.json"
	}
	schema, err := jsonschema.NewCompiler().Compile(file + "#/kinds/" + strings.ReplaceAll(fmt.Sprint(m["apiVersion"]), "/", "~1") + "%20" + m.kind())
	if err != nil {
		return err
	}
	return schema.Validate(map[string]any(m))
}

// deployment contains the fields of a Deployment that these tests read.
type deployment struct {
	Spec struct {
		Template struct {
			Metadata struct{ Annotations map[string]string }
			Spec     struct{ Containers []container }
		}
	}
}

type container struct {
	Args  []string
	Env   []struct{ Name, Value string }
	Ports []struct {
		Name          string
		ContainerPort int
	}
}

// as converts the only manifest of a kind.
func as[T any](t *testing.T, kind string, manifests []manifest) (value T) {
	t.Helper()
	i := slices.IndexFunc(manifests, func(m manifest) bool { return m.kind() == kind })
	text, err := json.Marshal(manifests[i])
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// checkService checks that headgate accepts the configuration and the flags, and that
// each port is that of a listener.
func checkService(t *testing.T, name, program string, manifests []manifest) {
	t.Helper()
	config := as[struct{ Data map[string]string }](t, "ConfigMap", manifests).Data["headgate.yaml"]
	path := filepath.Join(t.TempDir(), "headgate.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	c := as[deployment](t, "Deployment", manifests).Spec.Template.Spec.Containers[0]
	if c.Args[0] != "serve" || c.Args[1] != "--config=/etc/headgate/headgate.yaml" {
		t.Fatalf("%s: args %q", name, c.Args)
	}
	command(t, ".", program, "config", "check", path)
	args := append([]string{"config", "print", "--config=" + path}, c.Args[2:]...)
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "HEADGATE_ADMIN_TOKEN=secret", "HEADGATE_RESP_PASSWORD=secret")
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: headgate %q: %v\n%s", name, args, err, text)
	}
	ports := make(map[string]bool)
	for _, port := range c.Ports {
		ports[port.Name] = true
		if flag := fmt.Sprintf("--%s-addr=0.0.0.0:%d", port.Name, port.ContainerPort); !slices.Contains(c.Args, flag) {
			t.Errorf("%s: port %s: the container has no flag %s", name, port.Name, flag)
		}
	}
	for _, arg := range c.Args {
		if flag, addr, _ := strings.Cut(arg, "-addr=0.0.0.0:"); addr != "" && !ports[strings.TrimPrefix(flag, "--")] {
			t.Errorf("%s: the container does not declare the port of %s", name, arg)
		}
	}
	service := as[struct {
		Spec struct {
			Ports []struct {
				Name, TargetPort string
			}
		}
	}](t, "Service", manifests)
	for _, port := range service.Spec.Ports {
		if !ports[port.TargetPort] {
			t.Errorf("%s: port %s of the Service has no port %s in the container", name, port.Name, port.TargetPort)
		}
	}
}

func command(t *testing.T, folder string, args ...string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "GOWORK=") // use the workspace of folder
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, text)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
