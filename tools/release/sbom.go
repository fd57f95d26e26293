package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes the bill of materials of the binary for target in CycloneDX format:
// the modules that the go command recorded in the binary, and the standard library.
func (r *release) writeSBOM(target string) error {
	content, err := os.ReadFile(r.binary(target))
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return err
	}
	bom := cdx.NewBOM()
	program := component(info.Path, r.commit.Version)
	program.Type = cdx.ComponentTypeApplication
	sum := sha256.Sum256(content)
	program.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	program.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	bom.Metadata = &cdx.Metadata{Timestamp: r.commit.Time.Format(time.RFC3339), Component: &program}
	bom.Components = r.components(info)
	var text bytes.Buffer
	encoder := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON)
	if err := encoder.SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, r.name(target)+".cdx.json"), text.Bytes(), 0o644)
}

func (r *release) components(info *debug.BuildInfo) *[]cdx.Component {
	all := []cdx.Component{component("std", info.GoVersion)}
	for _, module := range info.Deps {
		version := module.Version
		if strings.HasPrefix(module.Path, "github.com/headgate/headgate") {
			version = r.commit.Version // of the same commit
		}
		all = append(all, component(module.Path, version))
	}
	return &all
}

func component(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
}
