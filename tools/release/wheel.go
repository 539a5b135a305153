package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// platforms are wheels' names of systems (PEP 425). The program is static, so any C library will do. Go 1.26 needs
// macOS 12.
var platforms = map[string]string{
	"linux/amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64", "linux/arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
	"darwin/amd64": "macosx_12_0_x86_64", "darwin/arm64": "macosx_12_0_arm64",
}

// wheel packs the Python package together with the program, which pip puts on the PATH
// (https://packaging.python.org/en/latest/specifications/binary-distribution-format/).
func (r *release) wheel(b build) error {
	platform, known := platforms[b.system+"/"+b.arch]
	if !known {
		return nil
	}
	name := "tierml-" + r.public()
	info := name + ".dist-info/"
	listed, err := r.command(r.root, "git", "ls-files", "python/tierml", "python/README.md", "LICENSE")
	if err != nil {
		return err
	}
	var files []file
	for _, path := range strings.Split(listed, "\n") {
		content, err := os.ReadFile(filepath.Join(r.root, path))
		if err != nil {
			return err
		}
		switch {
		case path == "LICENSE":
			files = append(files, file{info + "licenses/LICENSE", 0o644, content})
		case path == "python/README.md":
			files = append(files, file{info + "METADATA", 0o644, metadata(r.public(), content)})
		default:
			files = append(files, file{strings.TrimPrefix(path, "python/"), 0o644, content})
		}
	}
	program, err := os.ReadFile(b.program)
	if err != nil {
		return err
	}
	tags := ""
	for one := range strings.SplitSeq(platform, ".") {
		tags += "Tag: py3-none-" + one + "\n"
	}
	files = append(files, file{name + ".data/scripts/tierml", 0o755, program},
		file{info + "WHEEL", 0o644, []byte("Wheel-Version: 1.0\nGenerator: tierml\nRoot-Is-Purelib: false\n" + tags)})
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var record strings.Builder
	for _, f := range files {
		sum := sha256.Sum256(f.content)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.content))
	}
	record.WriteString(info + "RECORD,,\n")
	packed, err := r.zip(append(files, file{info + "RECORD", 0o644, []byte(record.String())}))
	if err != nil {
		return err
	}
	return r.write(name+"-py3-none-"+platform+".whl", packed)
}

func metadata(version string, readme []byte) []byte {
	return []byte("Metadata-Version: 2.4\nName: tierml\nVersion: " + version + `
Summary: Train models and run programs on spot machines without losing work
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.9
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Description-Content-Type: text/markdown

` + string(readme))
}

func (r *release) zip(files []file) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.stamp}
		h.SetMode(f.mode)
		to, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
