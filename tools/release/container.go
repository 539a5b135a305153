package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// container builds the image, as a layout to be pushed by crane or skopeo, and the chart that names it by digest.
func (r *release) container(programs []string) error {
	if len(programs) == 0 {
		return nil
	}
	layout := filepath.Join(r.out, "image")
	said, err := r.command(r.root, "go", append([]string{"run", "./cmd/image", layout, r.certificates}, programs...)...)
	if err != nil {
		return err
	}
	_, digest, found := strings.Cut(said, "index ")
	if !found {
		return fmt.Errorf("cmd/image names no digest: %s", said)
	}
	var image []file
	err = filepath.WalkDir(layout, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(layout, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		image = append(image, file{filepath.ToSlash(name), 0o644, content})
		return err
	})
	if err != nil {
		return err
	}
	packed, err := r.pack("", image)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(layout); err != nil {
		return err
	}
	if err := r.write("tierml_"+r.number()+"_image.tar.gz", packed); err != nil {
		return err
	}
	return r.chart(digest)
}

var (
	chartVersion = regexp.MustCompile(`(?m)^version: .*$`)
	chartImage   = regexp.MustCompile(`(?m)^image: ""$`)
)

// chart packs the chart with the release's version, and the image if its name is given.
func (r *release) chart(digest string) error {
	const below = "deploy/kubernetes/chart/"
	var files []file
	for _, f := range r.extras {
		name, inside := strings.CutPrefix(f.name, below)
		if !inside {
			continue
		}
		switch {
		case name == "Chart.yaml":
			f.content = chartVersion.ReplaceAll(f.content, []byte("version: "+r.public()+"\nappVersion: "+r.public()))
		case name == "values.yaml" && r.image != "":
			f.content = chartImage.ReplaceAll(f.content, []byte(`image: "`+r.image+"@"+digest+`"`))
			if !strings.Contains(string(f.content), digest) {
				return fmt.Errorf("%s%s has no line image: \"\"", below, name)
			}
		}
		files = append(files, file{name, f.mode, f.content})
	}
	packed, err := r.pack("tierml", files)
	if err != nil {
		return err
	}
	return r.write("tierml-chart-"+r.public()+".tgz", packed)
}
