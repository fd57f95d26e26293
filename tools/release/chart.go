package main

import (
	"os"
	"path/filepath"
	"regexp"
)

var chartVersion = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// writeChart writes the Helm chart in packaging/chart with the version of the release, in
// the form of “helm package”: the chart's files in a folder of its name.
func (r *release) writeChart() error {
	all, err := folderFiles(filepath.Join(r.source, "packaging/chart"), "headgate/")
	if err != nil {
		return err
	}
	for i, f := range all {
		if f.name == "headgate/Chart.yaml" {
			all[i].content = chartVersion.ReplaceAll(f.content, []byte("${1}: "+r.commit.number()))
		}
	}
	content, err := compressed(all, r.commit.Time)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "headgate-"+r.commit.number()+".tgz"), content, 0o644)
}
