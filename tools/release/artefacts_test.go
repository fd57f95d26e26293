package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/sassoftware/go-rpmutils"
)

const (
	testTarget = "linux/amd64"
	// maxBinary is the maximum size of a binary in bytes. A package that executes a
	// template would add about 14 MB: see ADR 47.
	maxBinary = 25_000_000
)

// TestArtefacts builds a release for linux/amd64 once and uses each artefact as its users
// do: in an empty root folder, as the artefact's own user.
func TestArtefacts(t *testing.T) {
	if testing.Short() {
		return // builds the service without cgo and stripped
	}
	out := t.TempDir()
	if err := run("../..", out, testTarget, "v0.9.0"); err != nil {
		t.Fatal(err)
	}
	t.Run("archive", func(t *testing.T) { checkArchive(t, out) })
	t.Run("deb", func(t *testing.T) { checkDeb(t, out) })
	t.Run("rpm", func(t *testing.T) { checkRPM(t, out) })
	t.Run("image", func(t *testing.T) { checkImage(t, out) })
	t.Run("checksums", func(t *testing.T) { command(t, out, "sha256sum", "--check", "--strict", "SHA256SUMS") })
	t.Run("sbom", func(t *testing.T) {
		text := read(t, filepath.Join(out, "headgate_0.9.0_linux_amd64.cdx.json"))
		for _, want := range []string{`"bomFormat": "CycloneDX"`, `"pkg:golang/google.golang.org/grpc@v1.`, `"pkg:golang/github.com/headgate/headgate@v0.9.0"`} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in %.300s", want, text)
			}
		}
	})
}

func checkArchive(t *testing.T, out string) {
	root := t.TempDir()
	command(t, root, "tar", "--strip-components=1", "-xzf", filepath.Join(out, "headgate_0.9.0_linux_amd64.tar.gz"))
	checkVersion(t, root, "/headgate")
	if info, err := os.Stat(filepath.Join(root, "headgate")); err != nil || info.Size() > maxBinary {
		t.Errorf("the binary has %d bytes, want at most %d: %v", info.Size(), maxBinary, err)
	}
	for _, name := range []string{"LICENSE", "README.md", "man/headgate-serve.1", "completions/headgate.bash", "completions/_headgate", "completions/headgate.fish"} {
		if read(t, filepath.Join(root, name)) == "" {
			t.Errorf("%s is empty", name)
		}
	}
	command(t, root, "bash", "-n", "completions/headgate.bash")
}

// checkDeb installs the package with dpkg, upgrades it with a changed configuration file,
// and purges it.
func checkDeb(t *testing.T, out string) {
	root := t.TempDir()
	for _, folder := range []string{"var/lib/dpkg/updates", "var/lib/dpkg/info"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dpkg := []string{"dpkg", "--root=" + root, "--force-script-chrootless", "--force-not-root", "--force-confdef", "--force-confold", "--log=/dev/null"}
	install := append(dpkg, "--install", filepath.Join(out, "headgate_0.9.0-1_amd64.deb"))
	command(t, root, install...)
	checkPackage(t, root)

	edited := filepath.Join(root, "etc/headgate/headgate.yaml")
	if err := os.WriteFile(edited, []byte("policies: {api: {limits: [1/s]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, root, install...)
	if got := read(t, edited); !strings.HasPrefix(got, "policies: {api") {
		t.Errorf("the upgrade replaced the changed configuration: %s", got)
	}
	command(t, root, append(dpkg, "--purge", "headgate")...)
	if _, err := os.Stat(filepath.Join(root, "usr/bin/headgate")); err == nil {
		t.Error("the purge left the binary")
	}
}

func checkRPM(t *testing.T, out string) {
	content := read(t, filepath.Join(out, "headgate-0.9.0-1.x86_64.rpm"))
	rpm, err := rpmutils.ReadRpm(strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := rpm.ExpandPayload(root); err != nil {
		t.Fatal(err)
	}
	files, err := rpm.Header.GetFiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files { // ExpandPayload does not set modes
		if err := os.Chmod(filepath.Join(root, f.Name()), os.FileMode(f.Mode()).Perm()); err != nil {
			t.Fatal(err)
		}
	}
	checkPackage(t, root)
}

// checkPackage runs the program and the commands of the unit in root.
func checkPackage(t *testing.T, root string) {
	t.Helper()
	checkVersion(t, root, "/usr/bin/headgate")
	unit := read(t, filepath.Join(root, "usr/lib/systemd/system/headgate.service"))
	start := regexp.MustCompile(`(?m)^ExecStart=(/usr/bin/headgate serve .*)$`).FindStringSubmatch(unit)
	if start == nil || strings.Contains(unit, "=/usr/local/") {
		t.Fatalf("the unit does not start /usr/bin/headgate:\n%s", unit)
	}
	// The unit is valid, and the program that it starts exists.
	here := filepath.Join(t.TempDir(), "headgate.service")
	if err := os.WriteFile(here, []byte(strings.ReplaceAll(unit, "=/usr/bin/headgate", "="+root+"/usr/bin/headgate")), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, root, "systemd-analyze", "verify", "--man=no", here)
	// An unknown store ends the command after it has read its configuration.
	args := append(strings.Fields(start[1]), "--store=unknown://")
	text, err := inRoot(root, 0, args...)
	if err == nil || !strings.Contains(text, `store "unknown"`) {
		t.Errorf("ExecStart with an unknown store: got error %v, output %s", err, text)
	}
	if text, err := inRoot(root, 0, "/usr/bin/headgate", "config", "check", "/etc/headgate/headgate.yaml"); err != nil {
		t.Errorf("packaged configuration: %v\n%s", err, text)
	}
	if pages, err := filepath.Glob(filepath.Join(root, "usr/share/man/man1/headgate*.1.gz")); err != nil || len(pages) < 15 {
		t.Errorf("found %d manual pages, error %v", len(pages), err)
	}
}

// checkImage unpacks the image and runs its command as its user.
func checkImage(t *testing.T, out string) {
	folder := t.TempDir()
	command(t, folder, "tar", "-xf", filepath.Join(out, "headgate_0.9.0_image.tar"))
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	img := onlyImage(t, index)
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65534:65534" || config.OS+"/"+config.Architecture != testTarget {
		t.Errorf("user %s, platform %s/%s", config.Config.User, config.OS, config.Architecture)
	}
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	unpack(t, mutate.Extract(img), root)
	checkVersion(t, root, "/bin/headgate")
	checkVersion(t, root, config.Config.Entrypoint[0])
	if strings.Count(read(t, filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")), "BEGIN CERTIFICATE") < 100 {
		t.Error("fewer than 100 CA certificates")
	}
	args := append(config.Config.Entrypoint, config.Config.Cmd...)
	text, err := inRoot(root, 65534, append(args, "--store=unknown://")...)
	if err == nil || !strings.Contains(text, `store "unknown"`) {
		t.Errorf("the image's command with an unknown store: got error %v, output %s", err, text)
	}
	if docker := read(t, "../../packaging/Dockerfile"); !strings.Contains(docker, `CMD ["`+strings.Join(config.Config.Cmd, `", "`)+`"]`) {
		t.Errorf("packaging/Dockerfile has another command than %q", config.Config.Cmd)
	}
}

// onlyImage returns the image of the only platform in a layout.
func onlyImage(t *testing.T, index v1.ImageIndex) v1.Image {
	t.Helper()
	for {
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != 1 {
			t.Fatalf("got %v, error %v; want one manifest", manifest, err)
		}
		only := manifest.Manifests[0]
		if only.MediaType.IsImage() {
			img, err := index.Image(only.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return img
		}
		if index, err = index.ImageIndex(only.Digest); err != nil {
			t.Fatal(err)
		}
	}
}

func unpack(t *testing.T, content io.ReadCloser, root string) {
	t.Helper()
	defer func() { _ = content.Close() }()
	cmd := exec.Command("tar", "-x", "--no-same-owner", "-C", root)
	cmd.Stdin = content
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, text)
	}
}

// checkVersion runs a program of root, which prints its version and commit.
func checkVersion(t *testing.T, root, program string) {
	t.Helper()
	text, err := inRoot(root, 65534, program, "version")
	if want := regexp.MustCompile(`^headgate v0\.9\.0 go1\.\S+ \(commit [0-9a-f]{12} of 20\S+Z\)\n$`); err != nil || !want.MatchString(text) {
		t.Errorf("%s version: got %q, error %v", program, text, err)
	}
}

// inRoot runs a command with root as its root folder and with the given user, and returns
// its output. Without root's rights it uses a user namespace.
func inRoot(root string, uid int, args ...string) (string, error) {
	if err := openFolders(root); err != nil {
		return "", err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Path, cmd.Dir, cmd.Err = args[0], "/", nil
	cmd.Env = []string{"PATH=/usr/bin"}
	attributes := &syscall.SysProcAttr{Chroot: root}
	if os.Getuid() == 0 {
		attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	} else {
		attributes.Cloneflags = syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getuid(), Size: 1}}
	}
	cmd.SysProcAttr = attributes
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// openFolders lets other users enter root and the temporary folders that contain it.
func openFolders(root string) error {
	for folder := root; folder != os.TempDir() && folder != "/"; folder = filepath.Dir(folder) {
		info, err := os.Stat(folder)
		if err != nil {
			return err
		}
		if err := os.Chmod(folder, info.Mode()|0o111); err != nil {
			return err
		}
	}
	return nil
}

func command(t *testing.T, folder string, args ...string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = folder
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

// Archives of the same files are equal and list the files in order, with one time.
func TestArchivesAreReproducible(t *testing.T) {
	t.Parallel()
	at := commit{}.Time
	a, b := file{name: "x/a", content: []byte("a"), mode: 0o644}, file{name: "x/b", content: []byte("b"), mode: 0o755}
	first, err := compressed([]file{a, b}, at)
	if err != nil {
		t.Fatal(err)
	}
	second, err := compressed([]file{b, a}, at)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("the order of the files changes the archive: %v", err)
	}
	plain, err := gzip.NewReader(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fs.FileMode(header.Mode).String()+" "+header.Name)
	}
	if got, want := strings.Join(names, ", "), "-rwxr-xr-x x/, -rw-r--r-- x/a, -rwxr-xr-x x/b"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
