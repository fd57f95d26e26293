package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageCommand is the command of the image, as in packaging/Dockerfile. All other
// listeners stay on the container's loopback address and are not reachable.
var imageCommand = []string{
	"serve", "--http-addr", "0.0.0.0:8080", "--grpc-addr", "0.0.0.0:8081", "--metrics-addr", "0.0.0.0:9090", "--log-format", "json",
}

// writeImage writes headgate_VERSION_image.tar, an OCI layout with one image for each
// target. Like the one of packaging/Dockerfile, the image contains the binary and public
// CA certificates, and runs as user 65534.
func (r *release) writeImage(targets []string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, target := range targets {
		img, err := r.image(target)
		if err != nil {
			return err
		}
		goos, arch, _ := strings.Cut(target, "/")
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: goos, Architecture: arch}},
		})
	}
	folder := filepath.Join(r.work, "image")
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	name := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.commit.number()})
	if err := path.AppendIndex(index, name); err != nil {
		return err
	}
	all, err := folderFiles(folder, "")
	if err != nil {
		return err
	}
	content, err := tarred(all, r.commit.Time)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "headgate_"+r.commit.number()+"_image.tar"), content, 0o644)
}

// image returns the image for one platform.
func (r *release) image(target string) (v1.Image, error) {
	layer, err := r.layer(target)
	if err != nil {
		return nil, err
	}
	goos, arch, _ := strings.Cut(target, "/")
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: r.commit.Time}, CreatedBy: "headgate " + r.commit.Version},
	})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = goos, arch, v1.Time{Time: r.commit.Time}
	config.Config = v1.Config{
		User: "65534:65534", Entrypoint: []string{"/bin/headgate"}, Cmd: imageCommand, WorkingDir: "/",
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}, "9090/tcp": {}},
		Labels:       r.labels(),
	}
	return mutate.ConfigFile(img, config)
}

func (r *release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "Headgate",
		"org.opencontainers.image.description": "An exact rate limiter for HTTP, Envoy, proxies and Redis clients",
		"org.opencontainers.image.source":      "https://github.com/headgate/headgate",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     r.commit.Version,
		"org.opencontainers.image.revision":    r.commit.Hash,
	}
}

// layer returns the only layer of an image.
func (r *release) layer(target string) (v1.Layer, error) {
	program, err := os.ReadFile(r.binary(target))
	if err != nil {
		return nil, err
	}
	content, err := compressed([]file{
		{name: "bin/headgate", content: program, mode: 0o755},
		{name: "bin/ratelimit", link: "headgate", mode: 0o777},
		{name: "etc/ssl/certs/ca-certificates.crt", content: certificates(), mode: 0o644},
	}, r.commit.Time)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// certificates returns Mozilla's CA certificates as PEM, from the pinned Go module. It
// omits certificates that Mozilla trusts with restrictions, which PEM cannot express.
func certificates() []byte {
	var all [][]byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return bytes.Join(all, nil)
}
