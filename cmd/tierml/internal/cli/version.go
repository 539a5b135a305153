package cli

import (
	"runtime"
	"runtime/debug"
)

// BuildVersion is set by the Makefile: -ldflags "-X .../cmd/tierml/internal/cli.BuildVersion=v1.2.3".
var BuildVersion string

// Version returns the version of the program. If it was built without make, it uses what Go knows: the module's
// version, or the commit.
func Version() string {
	v := BuildVersion
	if v == "" {
		v = versionOfBuild()
	}
	return v + " (" + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
}

func versionOfBuild() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return "commit " + setting.Value
		}
	}
	return "unknown"
}
